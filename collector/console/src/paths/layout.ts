// SPDX-License-Identifier: Apache-2.0

// Where nodes and segments stand in the drawing: in layers, from where packets come to where they go.
import * as dagre from '@dagrejs/dagre'
import type { Graph as Paths } from './merge'

export interface Point { x: number; y: number }

export interface Layout {
  width: number
  height: number
  nodes: Map<string, Point>
  edges: Map<string, { line: string; label: Point }>
}

export const nodeWidth = 158, nodeHeight = 40

/** The layout that can be the greatest in a width: from the left to the right, or downwards. */
export function fitting(graphs: Paths[], width: number): Layout {
  const across = place(graphs, false)
  if (across.width * 0.85 <= width) return across
  const down = place(graphs, true)
  return Math.min(1, width / down.width) > Math.min(1, width / across.width) ? down : across
}

/** Several graphs get the same places, so that they can be compared. */
export function place(graphs: Paths[], down: boolean): Layout {
  const g = new dagre.graphlib.Graph({ multigraph: true })
  g.setGraph({ rankdir: down ? 'TB' : 'LR', nodesep: 14, ranksep: down ? 14 : 12, edgesep: 8, marginx: 6, marginy: 8 })
  g.setDefaultEdgeLabel(() => ({}))
  for (const graph of graphs) {
    for (const key of graph.nodes.keys()) g.setNode(key, { width: nodeWidth, height: nodeHeight })
    for (const e of graph.edges.values()) g.setEdge(e.from, e.to, { width: e.negative > 0 ? 150 : 122, height: 34, labelpos: 'c' }, e.key)
  }
  dagre.layout(g)
  const size = g.graph() as { width?: number; height?: number }
  const nodes = new Map(g.nodes().map((key) => {
    const { x, y } = g.node(key) as Point
    return [key, { x, y }]
  }))
  const edges = new Map(g.edges().map((e) => {
    const { points, x, y } = g.edge(e) as { points: Point[]; x?: number; y?: number }
    const middle = points[Math.floor(points.length / 2)]!
    return [e.name!, { line: curve(points), label: { x: x ?? middle.x, y: y ?? middle.y } }]
  }))
  return { width: Math.max(size.width ?? 0, nodeWidth + 16), height: Math.max(size.height ?? 0, nodeHeight + 20), nodes, edges }
}

const r = (n: number) => Math.round(n * 10) / 10

/** A smooth line through points: quadratic curves between their middles. */
export function curve(points: Point[]): string {
  const [first, ...rest] = points
  if (!first) return ''
  let line = `M${r(first.x)} ${r(first.y)}`
  rest.forEach((p, i) => {
    const next = rest[i + 1]
    line += next ? `Q${r(p.x)} ${r(p.y)} ${r((p.x + next.x) / 2)} ${r((p.y + next.y) / 2)}` : `L${r(p.x)} ${r(p.y)}`
  })
  return line
}
