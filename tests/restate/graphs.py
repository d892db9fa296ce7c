"""Random workflows with a script for each: roles in a row, edges back with a bound, some with branches or lanes."""

import json
import random


def workflow(seed):
    """The text of a workflow and that of its script."""
    chance = random.Random(seed)
    count = chance.randint(1, 5)
    roles, graph, script = {}, {}, {}
    for number in range(count):
        name, behind = f"r{number}", f"r{number + 1}" if number + 1 < count else "end"
        roles[name] = {
            "system": f"You are {name}.",
            "history": chance.choice(["condensed", "exact", "none"]),
            "context": chance.choice(["none", "outputs", "bodies"]),
            "output": {"forward": {"n": "integer"}, "again": {}},
        }
        back = f"r{chance.randint(0, number)}"
        ahead = {"to": behind, "prompt": f"Go on with {{{{ output.n }}}}: {{{{ body }}}}"}
        if behind == "end":
            ahead = {"to": "end"}
        elif chance.random() < 0.3:
            # Lanes that meet again at the next role.
            lanes = [f"l{number}a", f"l{number}b"]
            for lane in lanes:
                roles[lane] = {"system": f"You are {lane}.", "output": {"said": {}}}
                graph[lane] = {"said": {"to": behind}}
                script[lane] = [{"status": "said", "body": f"{lane} {turn}"} for turn in range(60)]
            ahead = {
                "to": lanes, "prompt": "Say {{ output.n }}.", "join": {"to": behind, "prompt": "They said:\n{% for b in branches %}\n{{ b.body }}\n{% endfor %}"},
            }
        graph[name] = {
            "forward": ahead,
            "again": {
                "to": back, "prompt": "Again: {{ input.topic }}", "max": chance.randint(1, 4),
                "on_max": {"to": "fail", "reason": "too often"},
            },
        }
        script[name] = [
            {"status": "again", "body": f"{name} again {turn}"} if chance.random() < 0.35
            else {"status": "forward", "fields": {"n": turn}, "body": f"{name} forward {turn}"}
            for turn in range(60)
        ]
    document = {
        "rondo": 1, "name": f"graph_{seed}", "input": {"topic": {"type": "string", "default": "pools"}},
        "roles": roles, "graph": {"start": {"to": "r0", "prompt": "Begin with {{ input.topic }}."}, **graph},
        "limits": {"steps": 200},
    }
    return json.dumps(document, indent=1), json.dumps(script, indent=1)
