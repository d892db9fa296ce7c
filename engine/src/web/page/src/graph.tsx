// The picture of a workflow's graph, placed by dagre. Roles that speak, visits and the last edge are marked in it.

import { graphlib, layout } from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";
import type { Picture } from "./types";

interface Placed {
  width: number;
  height: number;
  nodes: { id: string; kind: string; label: string; x: number; y: number; width: number; height: number }[];
  frames: { id: string; x: number; y: number; width: number; height: number }[];
  edges: { id: string; from: string; to: string; kind: string; path: string; label: string; full: string; x: number; y: number }[];
}

const CHAR = 7.2;
const MAX_LABEL = 26;

function cut(text: string): string {
  return text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text;
}

/** The roles of the lanes that each fan-out opens: what can be reached from its branches before its join. */
function lanes(edges: Picture["edges"]): Map<string, string> {
  const frames = new Map<string, string>();
  const sources = new Set(edges.filter((edge) => edge.kind === "branch").map((edge) => edge.from));
  for (const source of sources) {
    const joins = new Set(edges.filter((edge) => edge.kind === "join" && edge.from === source).map((edge) => edge.to));
    const open = edges.filter((edge) => edge.kind === "branch" && edge.from === source).map((edge) => edge.to);
    while (open.length > 0) {
      const role = open.pop()!;
      if (frames.has(role) || joins.has(role) || !role.startsWith("role:")) continue;
      frames.set(role, `lanes of ${source}`);
      for (const edge of edges) if (edge.from === role && edge.kind === "edge") open.push(edge.to);
    }
  }
  return frames;
}

function place(picture: Picture, hasHooks: boolean): Placed {
  // Child workflows have graphs of their own, which their threads show.
  const isOwn = (id: string) => !id.includes("/") || id.startsWith("hook:") || id.startsWith("port:");
  const isShown = (id: string) => isOwn(id) && (hasHooks || !/^(hook|port):/.test(id));
  const graph = new graphlib.Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 28, ranksep: 46, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  const nodes = picture.nodes.filter((node) => isShown(node.id));
  for (const node of nodes) {
    const isRound = node.kind === "start" || node.kind === "end" || node.kind === "fail";
    graph.setNode(node.id, { width: Math.max(isRound ? 56 : 96, node.label.length * CHAR + 28), height: isRound ? 28 : 40 });
  }
  const known = new Set(nodes.map((node) => node.id));
  const frames = lanes(picture.edges);
  for (const [role, frame] of frames) {
    if (!known.has(role)) continue;
    if (!graph.hasNode(frame)) graph.setNode(frame, {});
    graph.setParent(role, frame);
  }
  // Edges between the same two nodes are drawn as one, with all labels.
  const grouped = new Map<string, Picture["edges"]>();
  for (const edge of picture.edges) {
    if (!known.has(edge.from) || !known.has(edge.to)) continue;
    const key = `${edge.from}→${edge.to}→${edge.kind === "call" ? "call" : ""}`;
    grouped.set(key, [...(grouped.get(key) ?? []), edge]);
  }
  for (const [key, edges] of grouped) {
    const lines = edges.map((edge) => cut(edge.label)).filter(Boolean);
    const width = Math.max(0, ...lines.map((line) => line.length)) * 6.2;
    graph.setEdge(edges[0]!.from, edges[0]!.to, { width, height: lines.length * 13, labelpos: "c" }, key);
  }
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: nodes.map((node) => ({ ...node, ...(graph.node(node.id) as { x: number; y: number; width: number; height: number }) })),
    frames: [...new Set(frames.values())]
      .filter((frame) => graph.hasNode(frame))
      .map((frame) => ({ id: frame, ...(graph.node(frame) as { x: number; y: number; width: number; height: number }) })),
    edges: [...grouped].map(([key, edges]) => {
      const first = edges[0]!;
      const of = graph.edge(first.from, first.to, key) as { points: { x: number; y: number }[]; x?: number; y?: number };
      return {
        id: key,
        from: first.from,
        to: first.to,
        kind: first.kind,
        path: curve(of.points),
        label: edges.map((edge) => cut(edge.label)).filter(Boolean).join("\n"),
        full: edges.map((edge) => edge.label).filter(Boolean).join("\n"),
        x: of.x ?? 0,
        y: of.y ?? 0,
      };
    }),
  };
}

/** A smooth line through the points. */
function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x.toFixed(1)},${first.y.toFixed(1)}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    if (!next) {
      // Straight to the end, which gives the arrow its direction.
      path += ` L${point.x.toFixed(1)},${point.y.toFixed(1)}`;
      return;
    }
    const end = { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    path += ` Q${point.x.toFixed(1)},${point.y.toFixed(1)} ${end.x.toFixed(1)},${end.y.toFixed(1)}`;
  });
  return path;
}

export interface Marks {
  /** Roles that speak now. */
  active: Set<string>;
  /** How often each role has spoken. */
  visits: Map<string, number>;
  lastEdge: { from: string; to: string[] } | null;
  /** The role of the step that is looked at. */
  chosen: string | null;
}

export function Graph(props: { picture: Picture; hasHooks: boolean; marks: Marks | null; onRole?: (role: string) => void }) {
  const placed = useMemo(() => place(props.picture, props.hasHooks), [props.picture, props.hasHooks]);
  const { marks } = props;
  const roleOf = (id: string) => (id.startsWith("role:") ? id.slice(5) : id);
  const isLast = (from: string, to: string) =>
    !!marks?.lastEdge && marks.lastEdge.from === roleOf(from) && (marks.lastEdge.to.includes(roleOf(to)) || (marks.lastEdge.to.length === 0 && to === "end"));
  const active = marks ? [...marks.active].join(", ") : "";
  const label = `Graph of ${props.picture.name}${active ? `; speaking: ${active}` : ""}`;
  return (
    <svg class="graph" role="img" aria-label={label} viewBox={`0 0 ${placed.width} ${placed.height}`} width={placed.width} height={placed.height}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
          <path d="M0,0 L8,4 L0,8 z" />
        </marker>
      </defs>
      {placed.frames.map((frame) => (
        <rect key={frame.id} class="frame" x={frame.x - frame.width / 2} y={frame.y - frame.height / 2} width={frame.width} height={frame.height} rx="10" />
      ))}
      {placed.edges.map((edge) => (
        <g key={edge.id} class={`edge ${edge.kind} ${isLast(edge.from, edge.to) ? "last" : ""}`}>
          <path d={edge.path} marker-end="url(#arrow)" />
          {edge.label && (
            <text x={edge.x} y={edge.y - (edge.label.split("\n").length - 1) * 6.5}>
              <title>{edge.full}</title>
              {edge.label.split("\n").map((line, index) => (
                <tspan key={index} x={edge.x} dy={index === 0 ? 3 : 13}>
                  {line}
                </tspan>
              ))}
            </text>
          )}
        </g>
      ))}
      {placed.nodes.map((node) => {
        const role = roleOf(node.id);
        const visits = marks?.visits.get(role) ?? 0;
        const state = marks?.active.has(role) ? "active" : marks?.chosen === role ? "chosen" : visits > 0 ? "visited" : "";
        return (
          <g key={node.id} class={`node ${node.kind} ${state}`} transform={`translate(${node.x - node.width / 2},${node.y - node.height / 2})`} onClick={() => props.onRole?.(role)}>
            <rect width={node.width} height={node.height} rx={node.height < 32 ? 14 : 8} />
            <text x={node.width / 2} y={node.height / 2 + 4}>
              {node.label}
            </text>
            {visits > 0 && (
              <g class="visits" transform={`translate(${node.width - 4},4)`}>
                <circle r="9" />
                <text y="3.5">{visits}</text>
              </g>
            )}
          </g>
        );
      })}
    </svg>
  );
}
