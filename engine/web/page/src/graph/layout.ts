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

export interface Label {
  width: number;
  height: number;
  lines: { text: string; y: number }[];
}

export interface PlacedEdge {
  id: string;
  from: string;
  to: string;
  kind: string;
  path: string;
  /** What stands at `x` and `y`: its size, and its lines with the middle of each below that of the label. */
  label: Label;
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
const LABEL_LINE = 13;
/** Between two labels of one edge, and around all of them. */
const LABEL_GAP = 4;
const LABEL_PADDING = 5;
/** How many characters a line of a label has at most. */
const MAX_LINE = 26;
/** The least width of a node that says how many lanes have arrived. */
const WAITING = 108;
/** How far a node's edge to itself leads away from it. */
const LOOP = 20;

const isAround = (id: string) => /^(hook|port):/.test(id);
/** Child workflows have graphs of their own, which their threads show. */
const isOwn = (id: string) => isAround(id) || !id.includes("/");

/** The lines of a text, parted at blanks; a word that is longer than a line is broken. */
function wrapped(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ").flatMap((word) => word.match(new RegExp(`.{1,${MAX_LINE}}`, "gu")) ?? [])) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < MAX_LINE) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The texts below each other. */
function labelled(texts: string[]): Label {
  const blocks = texts.map(wrapped);
  const all = blocks.flat();
  if (all.length === 0) return { width: 0, height: 0, lines: [] };
  const height = all.length * LABEL_LINE + (blocks.length - 1) * LABEL_GAP;
  let y = (LABEL_LINE - height) / 2;
  const lines = blocks.flatMap((block, index) => {
    y += index > 0 ? LABEL_GAP : 0;
    return block.map((text) => ({ text, y: (y += LABEL_LINE) - LABEL_LINE }));
  });
  return { width: widthOf(all) + 2 * LABEL_PADDING, height: height + LABEL_PADDING, lines };
}

let ruler: CanvasRenderingContext2D | null = null;

/** How wide the widest of the lines is in the font of the labels. */
function widthOf(lines: string[]): number {
  if (!ruler) {
    ruler = document.createElement("canvas").getContext("2d")!;
    // Bold, as a label is once its edge is marked.
    ruler.font = `600 11px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
  }
  return Math.max(...lines.map((line) => ruler!.measureText(line).width));
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

/** An arc of a node to itself and the place of its label, beside the way of the other edges: above the node, or right of it. */
function loop(box: Box, label: Label, direction: Options["direction"]): { path: string; x: number; y: number } {
  const [right, top] = [box.x + box.width / 2, box.y - box.height / 2];
  const far = LOOP + 6;
  if (direction === "TB") {
    const [up, down] = [box.y - 8, box.y + 8];
    const path = `M${right},${up} C${right + far},${up - 10} ${right + far},${down + 10} ${right},${down}`;
    return { path, x: right + LOOP + label.width / 2, y: box.y };
  }
  const [before, after] = [box.x - 14, box.x + 14];
  const path = `M${after},${top} C${after + 10},${top - far} ${before - 10},${top - far} ${before},${top}`;
  return { path, x: box.x, y: top - LOOP - label.height / 2 };
}

/** Where the line from the middle of a box to a point leaves the box. */
function border({ x, y, width, height }: Box, to: Point): Point {
  const [dx, dy] = [to.x - x, to.y - y];
  const share = Math.min(width / 2 / Math.abs(dx), height / 2 / Math.abs(dy));
  return share < 1 ? { x: x + dx * share, y: y + dy * share } : { x, y };
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
  const sizes = new Map(nodes.map((node) => [node.id, sizeOf(node.kind, node.label)]));
  for (const { kind, to } of picture.edges) {
    const size = sizes.get(to);
    if (kind === "join" && size) size.width = Math.max(size.width, WAITING);
  }
  for (const node of nodes) graph.setNode(node.id, { ...sizes.get(node.id)! });
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
  const labels = new Map<string, Label>();
  for (const [key, all] of groups) {
    const label = labelled(all.map(labelOf).filter(Boolean));
    labels.set(key, label);
    const { from, to } = all[0]!;
    if (from === to) {
      // Its place is kept free on both sides of the node: dagre knows only the middle.
      const { width, height } = sizes.get(from)!;
      const above = { width: Math.max(width, label.width), height: height + 2 * (LOOP + label.height) };
      const beside = { width: width + 2 * (LOOP + label.width), height: Math.max(height, label.height) };
      graph.setNode(from, direction === "LR" ? above : beside);
      continue;
    }
    const size = { width: label.width, height: label.height, labelpos: "c" };
    if (isBack(all[0]!)) graph.setEdge(to, from, size, key);
    else graph.setEdge(from, to, size, key);
  }
  layout(graph);

  const hooks = hooksOf(picture.edges);
  const box = (id: string): Box => ({ ...(graph.node(id) as Box), ...sizes.get(id) });
  const drawn = [...groups].map(([key, all]): PlacedEdge => {
    const { from, to, kind } = all[0]!;
    const back = isBack(all[0]!);
    const label = labels.get(key)!;
    const shared = {
      id: key,
      from,
      to,
      kind,
      label,
      isBack: back,
    };
    if (from === to) return { ...shared, ...loop(box(from), label, direction), isBack: true };
    const of = graph.edge(back ? { v: to, w: from, name: key } : { v: from, w: to, name: key }) as { points: Point[] } & Partial<Point>;
    // The line runs straight below its label, so that it is seen whose label that is.
    const [dx, dy] = direction === "LR" ? [label.width / 2, 0] : [0, label.height / 2];
    const through = ({ x, y }: Point) =>
      dx + dy > 0 && x === of.x && y === of.y ? [{ x: x - dx, y: y - dy }, { x: x + dx, y: y + dy }] : [{ x, y }];
    const inner = of.points.slice(1, -1).flatMap(through);
    if (back) inner.reverse();
    const points = [border(box(from), inner[0] ?? box(to)), ...inner, border(box(to), inner.at(-1) ?? box(from))];
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
