// The sheet of keys.

import { Dialog } from "./ui";

const KEYS: [string, [string[], string][]][] = [
  [
    "Everywhere",
    [
      [["t"], "threads"],
      [["n"], "start a new thread"],
      [["b"], "batches"],
      [["u"], "totals: what all threads used"],
      [["d"], "light, dark, or as the system is"],
      [["?"], "this sheet"],
      [["Esc"], "close what is open"],
    ],
  ],
  [
    "Threads",
    [
      [["j", "k"], "next, previous"],
      [["Enter"], "open"],
      [["/"], "search"],
    ],
  ],
  [
    "A thread",
    [
      [["j", "k"], "next step, previous step"],
      [["g", "G"], "first step, last step"],
      [["1", "2", "3"], "answer, request, bytes"],
      [["Space"], "play, pause"],
      [["p"], "prefix lane"],
      [["h"], "hooks in the graph"],
    ],
  ],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div class="keys">
        {KEYS.map(([where, keys]) => (
          <section key={where}>
            <h3>{where}</h3>
            <dl>
              {keys.map(([pressed, what]) => (
                <div key={what}>
                  <dt>
                    {pressed.map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
