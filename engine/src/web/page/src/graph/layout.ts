// Where the nodes and edges of a workflow's graph stand. dagre places them; what is shown of the graph, what leads back
// and which roles run in lanes is decided here.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Picture } from "../types";

type Nodes = Picture["nodes"];
type Edges = Picture["edges"];
type Point = { x: number; y: number };

interface Box extends Point {
  width: number;
  height: number;
}

export interface PlacedNode extends Box {
  id: string;
  kind: string;
  label: string;
  /** The hooks that calls of the role pass. */
  hooks: string[];
}

export interface PlacedEdge {
  id: string;
  from: string;
  to: string;
  kind: string;
  path: string;
  lines: string[];
  /** The labels uncut. */
  full: string;
  x: number;
  y: number;
  isBack: boolean;
}

export interface Placed {
  width: number;
  height: number;
  nodes: PlacedNode[];
  frames: (Box & { id: string; title: string })[];
  edges: PlacedEdge[];
}

export interface Options {
  /** Whether hooks and ports are nodes of their own. */
  hasHooks: boolean;
  direction: "LR" | "TB";
}

const CHAR = 7;
const LABEL_CHAR = 5.9;
const LABEL_LINE = 13;
const MAX_LABEL = 24;
const MAX_LINES = 4;

const isAround = (id: string) => /^(hook|port):/.test(id);
/** Child workflows have graphs of their own, which their threads show. */
const isOwn = (id: string) => isAround(id) || !id.includes("/");

function cut(text: string): string {
  return text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text;
}

/** A fan-out's label without the lane's name, which the role's own says: `listed: each file in output.files`. */
function labelOf(edge: Edges[number]): string {
  if (edge.kind !== "branch") return edge.label;
  const role = edge.to.replace(/^role:/, "");
  const isLane = (word: string) => word.startsWith(`${role}[`) && word.endsWith("]");
  return edge.label
    .split(" ")
    .filter((word) => !isLane(word))
    .join(" ")
    .replace(/:$/, "");
}

/** The nodes that can be reached from each node, itself only by a cycle. */
function reach(nodes: Nodes, edges: Edges): Map<string, Set<string>> {
  const next = new Map<string, string[]>();
  for (const edge of edges) next.set(edge.from, [...(next.get(edge.from) ?? []), edge.to]);
  return new Map(
    nodes.map(({ id }) => {
      const found = new Set<string>();
      const open = [...(next.get(id) ?? [])];
      for (let node = open.pop(); node !== undefined; node = open.pop()) {
        if (found.has(node)) continue;
        found.add(node);
        open.push(...(next.get(node) ?? []));
      }
      return [id, found];
    }),
  );
}

/** How many edges each node is away from the start. */
function depths(nodes: Nodes, edges: Edges): Map<string, number> {
  const depth = new Map<string, number>([["start", 0]]);
  const open = ["start"];
  for (let node = open.shift(); node !== undefined; node = open.shift()) {
    for (const edge of edges) {
      if (edge.from !== node || depth.has(edge.to)) continue;
      depth.set(edge.to, depth.get(node)! + 1);
      open.push(edge.to);
    }
  }
  for (const { id } of nodes) if (!depth.has(id)) depth.set(id, nodes.length);
  return depth;
}

/** Which edges lead back: within a cycle, to a node that is not further from the start. */
function backEdges(nodes: Nodes, edges: Edges): (edge: Edges[number]) => boolean {
  const reached = reach(nodes, edges);
  const depth = depths(nodes, edges);
  const order = new Map(nodes.map(({ id }, index) => [id, index]));
  return ({ from, to }) => {
    if (from === to || !reached.get(to)?.has(from)) return false;
    const [a, b] = [depth.get(from)!, depth.get(to)!];
    return a > b || (a === b && order.get(from)! > order.get(to)!);
  };
}

/** The roles that run in lanes: what a fan-out's branches lead to before its join. Fan-outs that share roles share a frame. */
function lanes(edges: Edges): { roles: Set<string>; title: string }[] {
  const frames: { roles: Set<string>; sources: string[] }[] = [];
  for (const source of new Set(edges.filter((edge) => edge.kind === "branch").map((edge) => edge.from))) {
    const targets = (kind: string) => edges.filter((edge) => edge.kind === kind && edge.from === source).map((edge) => edge.to);
    const joins = new Set(targets("join"));
    const roles = new Set<string>();
    const open = targets("branch");
    for (let role = open.pop(); role !== undefined; role = open.pop()) {
      if (roles.has(role) || joins.has(role) || !role.startsWith("role:")) continue;
      roles.add(role);
      for (const edge of edges) if (edge.from === role && edge.kind === "edge") open.push(edge.to);
    }
    const same = frames.find((frame) => [...roles].some((role) => frame.roles.has(role)));
    if (same) {
      for (const role of roles) same.roles.add(role);
      same.sources.push(source);
    } else {
      frames.push({ roles, sources: [source] });
    }
  }
  return frames.map(({ roles, sources }) => ({ roles, title: `lanes of ${sources.map((id) => id.replace(/^role:/, "")).join(" and ")}` }));
}

/** The hooks that each role's calls pass before they reach a port. */
function hooksOf(edges: Edges): Map<string, string[]> {
  const hooks = new Map<string, string[]>();
  const calls = edges.filter((edge) => edge.kind === "call");
  for (const role of new Set(calls.map((edge) => edge.from).filter((id) => !isAround(id)))) {
    const seen = new Set<string>();
    const open = [role];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      for (const edge of calls) {
        if (edge.from !== node || seen.has(edge.to) || !edge.to.startsWith("hook:")) continue;
        seen.add(edge.to);
        open.push(edge.to);
      }
    }
    hooks.set(
      role,
      [...seen].map((id) => id.slice("hook:".length)),
    );
  }
  return hooks;
}

/** A smooth line through the points that ends straight, so that its arrow has a direction. */
function curve(points: Point[]): string {
  const at = ({ x, y }: Point) => `${x.toFixed(1)},${y.toFixed(1)}`;
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${at(first)}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    path += next ? ` Q${at(point)} ${at({ x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 })}` : ` L${at(point)}`;
  });
  return path;
}

/** An arc of a node to itself, above it. */
function loop(box: Box): { path: string; x: number; y: number } {
  const [left, right] = [box.x - 14, box.x + 14];
  const top = box.y - box.height / 2;
  const path = `M${right},${top} C${right + 10},${top - 26} ${left - 10},${top - 26} ${left},${top}`;
  return { path, x: box.x, y: top - 26 };
}

function sizeOf(kind: string, label: string): { width: number; height: number } {
  const isRound = kind === "start" || kind === "end" || kind === "fail";
  return { width: Math.max(isRound ? 48 : 84, label.length * CHAR + (isRound ? 24 : 34)), height: isRound ? 26 : 36 };
}

export function place(picture: Picture, { hasHooks, direction }: Options): Placed {
  const isShown = (id: string) => isOwn(id) && (hasHooks || !isAround(id));
  const nodes = picture.nodes.filter((node) => isShown(node.id));
  const known = new Set(nodes.map((node) => node.id));
  // The arrows of the lanes show the join already.
  const edges = picture.edges.filter((edge) => known.has(edge.from) && known.has(edge.to) && edge.kind !== "join");
  const isBack = backEdges(nodes, edges);
  const frames = lanes(picture.edges);
  const graph = new graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 22, ranksep: direction === "LR" ? 34 : 38, edgesep: 14, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, sizeOf(node.kind, node.label));
  frames.forEach(({ roles }, index) => {
    const placed = [...roles].filter((role) => known.has(role));
    // A frame around one role of one lane says nothing that the edge does not.
    if (placed.length === 0) return;
    graph.setNode(`frame ${index}`, {});
    for (const role of placed) graph.setParent(role, `frame ${index}`);
  });

  // Edges between the same two nodes are drawn as one, with all labels.
  const groups = new Map<string, Edges>();
  for (const edge of edges) {
    const key = `${edge.from} ${edge.to} ${edge.kind === "call" ? "call" : ""}`;
    groups.set(key, [...(groups.get(key) ?? []), edge]);
  }
  const labels = new Map<string, string[]>();
  for (const [key, all] of groups) {
    const lines = all.map(labelOf).filter(Boolean);
    const few = lines.length > MAX_LINES ? [...lines.slice(0, MAX_LINES - 1), `${lines.length - MAX_LINES + 1} more`] : lines;
    labels.set(key, few.map(cut));
    const { from, to } = all[0]!;
    if (from === to) continue;
    const width = Math.max(0, ...few.map((line) => cut(line).length)) * LABEL_CHAR + (few.length > 0 ? 8 : 0);
    const size = { width, height: few.length * LABEL_LINE, labelpos: "c" };
    if (isBack(all[0]!)) graph.setEdge(to, from, size, key);
    else graph.setEdge(from, to, size, key);
  }
  layout(graph);

  const hooks = hooksOf(picture.edges);
  const box = (id: string) => graph.node(id) as Box;
  const drawn = [...groups].map(([key, all]): PlacedEdge => {
    const { from, to, kind } = all[0]!;
    const back = isBack(all[0]!);
    const shared = {
      id: key,
      from,
      to,
      kind,
      lines: labels.get(key)!,
      full: all
        .map((edge) => edge.label)
        .filter(Boolean)
        .join("\n"),
      isBack: back,
    };
    if (from === to) return { ...shared, ...loop(box(from)), isBack: true };
    const of = graph.edge(back ? { v: to, w: from, name: key } : { v: from, w: to, name: key }) as { points: Point[] } & Partial<Point>;
    const points = back ? [...of.points].reverse() : of.points;
    return { ...shared, path: curve(points), x: of.x ?? 0, y: of.y ?? 0 };
  });
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: nodes.map((node) => ({ ...node, ...box(node.id), hooks: hasHooks ? [] : (hooks.get(node.id) ?? []) })),
    frames: frames.flatMap(({ title }, index) =>
      graph.hasNode(`frame ${index}`) ? [{ id: `frame ${index}`, title, ...box(`frame ${index}`) }] : [],
    ),
    edges: drawn,
  };
}
