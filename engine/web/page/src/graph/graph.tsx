// The picture of a workflow's graph. Roles that speak, visits and the last edge are marked in it.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { useIsNarrow } from "../hooks";
import type { Picture } from "../types";
import { place, type PlacedEdge, type PlacedNode } from "./layout";

export interface Marks {
  /** Roles that speak now. */
  active: Set<string>;
  /** How often each role has spoken. */
  visits: Map<string, number>;
  /** What roles that join lanes wait for. */
  waits: Map<string, string>;
  lastEdge: { from: string; to: string[] } | null;
  /** The role of the step that is looked at. */
  chosen: string | null;
}

/** What the kinds of roles that are no model are called. */
const KINDS: Record<string, string> = {
  human: "person",
  rule: "rule",
  tool: "tool",
  workflow: "workflow",
  selector: "selector",
  rotation: "rotation",
};

export const roleOf = (id: string) => id.replace(/^role:/, "");

interface Props {
  picture: Picture;
  hasHooks?: boolean;
  marks?: Marks;
  /** Called with a role that has spoken and was clicked on. */
  onRole?: (role: string) => void;
}

export function Graph({ picture, hasHooks = false, marks, onRole }: Props) {
  const isNarrow = useIsNarrow(700);
  const box = useRef<HTMLDivElement>(null);
  const placed = useMemo(() => place(picture, { hasHooks, direction: isNarrow ? "TB" : "LR" }), [picture, hasHooks, isNarrow]);
  const active = marks ? [...marks.active].sort().join(", ") : "";
  const label = `Graph of ${picture.name}${active ? `; speaking: ${active}` : ""}`;
  const lineOf = ({ from, to, isBack }: PlacedEdge) => {
    const last = marks?.lastEdge;
    return last?.from === roleOf(from) && last.to.includes(roleOf(to)) ? "last" : isBack ? "back" : "plain";
  };
  // A role that begins to speak outside of what is seen of a large graph comes into sight.
  useEffect(() => {
    const frame = box.current!;
    const node = frame.querySelector<SVGGElement>(".node.active, .node.chosen");
    if (!node || frame.scrollWidth <= frame.clientWidth + 1) return;
    const [outer, inner] = [frame.getBoundingClientRect(), node.getBoundingClientRect()];
    if (inner.left < outer.left || inner.right > outer.right) frame.scrollLeft += inner.left - outer.left - outer.width / 2;
  }, [active, marks?.chosen]);
  return (
    <div class="picture" ref={box} tabIndex={0} role="region" aria-label="Graph">
      <svg
        class="graph"
        role="img"
        aria-label={label}
        viewBox={`0 0 ${placed.width} ${placed.height}`}
        width={placed.width}
        height={placed.height}
      >
        <defs>
          {["plain", "back", "last"].map((kind) => (
            <marker
              key={kind}
              id={`arrow-${kind}`}
              class={kind}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0,0.5 L8,4 L0,7.5 z" />
            </marker>
          ))}
        </defs>
        {placed.frames.map((frame) => (
          <g key={frame.id} class="frame" transform={`translate(${frame.x - frame.width / 2},${frame.y - frame.height / 2})`}>
            <rect width={frame.width} height={frame.height} rx="10" />
          </g>
        ))}
        {placed.edges.map((edge) => {
          const kind = lineOf(edge);
          return <path key={edge.id} class={`edge ${edge.kind} ${kind}`} d={edge.path} marker-end={`url(#arrow-${kind})`} />;
        })}
        {/* After all lines, so that none goes through a text. */}
        {placed.frames.map((frame) => (
          <text key={frame.id} class="frame" x={frame.x - frame.width / 2 + 8} y={frame.y - frame.height / 2 - 4}>
            {frame.title}
          </text>
        ))}
        {placed.edges.map((edge) => edge.label.lines.length > 0 && <EdgeLabel key={edge.id} edge={edge} kind={lineOf(edge)} />)}
        {placed.nodes.map((node) => (
          <Node key={node.id} node={node} marks={marks} onRole={onRole} />
        ))}
      </svg>
    </div>
  );
}

/** The texts of an edge, on a ground that hides the lines below them. */
function EdgeLabel({ edge: { label, x, y }, kind }: { edge: PlacedEdge; kind: string }) {
  return (
    <g class={`edge-label ${kind}`} transform={`translate(${x},${y})`}>
      <rect x={-label.width / 2} y={-label.height / 2} width={label.width} height={label.height} rx="4" />
      <text>
        {label.lines.map((line, index) => (
          <tspan key={index} x="0" y={line.y + 3.8}>
            {line.text}
          </tspan>
        ))}
      </text>
    </g>
  );
}

function Node({ node, marks, onRole }: { node: PlacedNode; marks: Marks | undefined; onRole: Props["onRole"] }) {
  const role = roleOf(node.id);
  const visits = marks?.visits.get(role) ?? 0;
  const state = marks?.active.has(role) ? "active" : marks?.chosen === role ? "chosen" : visits > 0 ? "visited" : "";
  const waits = marks?.waits.get(role);
  const kind = waits ?? KINDS[node.kind];
  const { width, height } = node;
  return (
    <g
      class={`node ${node.kind} ${state} ${onRole && visits > 0 ? "clickable" : ""}`}
      transform={`translate(${node.x - width / 2},${node.y - height / 2})`}
      onClick={() => visits > 0 && onRole?.(role)}
    >
      <rect width={width} height={height} rx={height < 32 ? 13 : 7} />
      <text x={width / 2} y={height / 2 + (kind ? -1 : 4)}>
        {node.label}
      </text>
      {kind && (
        <text class={waits ? "kind waits" : "kind"} x={width / 2} y={height / 2 + 11}>
          {kind}
        </text>
      )}
      {node.hooks.length > 0 && (
        <g class="hooks" transform={`translate(8,${height})`}>
          <title>{`hooks: ${node.hooks.join(", ")}`}</title>
          {node.hooks.slice(0, 4).map((hook, index) => (
            <circle key={hook} cx={index * 8} r="3" />
          ))}
        </g>
      )}
      {visits > 0 && (
        <g class="visits" transform={`translate(${width - 5},2)`}>
          <rect x={-(4 + String(visits).length * 3.4)} y="-8" width={8 + String(visits).length * 6.8} height="16" rx="8" />
          <text y="3.6">{visits}</text>
        </g>
      )}
    </g>
  );
}
