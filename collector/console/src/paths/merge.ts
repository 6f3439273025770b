// SPDX-License-Identifier: Apache-2.0

// Paths as one graph: nodes and segments that several of them share are there once.
import type { Delays, Hop, Interface, NodeTotal, Path, SegmentTotal } from '../types'
import { nodeName } from '../format'

export interface GraphNode {
  key: string
  name: string
  title: string
  packets: number
  /** Packets of which it is known that they were lost after it. */
  lost: number
  /** How long it held packets, on all listed paths together. */
  held?: Delays
  /** On how many paths it is. */
  paths: number
}

export interface GraphEdge {
  key: string
  from: string
  to: string
  out?: Interface
  in?: Interface
  packets: number
  /** Of all packets that were asked for. */
  share: number
  /** Time between the timestamps of its ends, on all listed paths together. */
  since?: Delays
  negative: number
  paths: Set<string>
  hops?: number
}

export interface Graph {
  nodes: Map<string, GraphNode>
  edges: Map<string, GraphEdge>
  slowNode?: GraphNode
  slowEdge?: GraphEdge
}

/** What makes a node the same on several paths: its id and name, by any exporter; without an id, its exporter. */
export const nodeKey = (h: Pick<Hop, 'exporter' | 'node_id' | 'node'>): string =>
  `${h.node_id === undefined ? h.exporter ?? '' : `#${h.node_id}`}|${h.node ?? ''}`

/** A percentile of few packets is the worst of them: it marks nothing as slow. */
const enough = (d: Delays | undefined, most: number): d is Delays => d !== undefined && d.count >= Math.min(20, most)

/** What was measured over all listed paths. */
export interface Totals { packets: number; nodes?: NodeTotal[]; segments?: SegmentTotal[] }

export function merge(paths: Path[], totals: Totals): Graph {
  const held = new Map((totals.nodes ?? []).map((n) => [nodeKey(n), n.held]))
  const since = new Map((totals.segments ?? []).map((s) => [s.segment, s]))
  const nodes = new Map<string, GraphNode>(), edges = new Map<string, GraphEdge>()
  for (const path of paths) {
    let before: Hop | null = null
    path.hops.forEach((hop, i) => {
      const key = nodeKey(hop)
      const node = nodes.get(key) ?? { key, name: nodeName(hop), title: '', packets: 0, lost: 0, paths: 0 }
      node.title = [hop.exporter, hop.node_id === undefined ? '' : `node_id ${hop.node_id}`].filter(Boolean).join(', ')
      node.packets += path.packets
      node.paths++
      if (i === path.hops.length - 1) node.lost += path.lost
      node.held = held.get(key)
      nodes.set(key, node)
      if (before) addEdge(edges, path, before, hop, totals.packets, since.get((before as Hop).segment))
      before = hop
    })
  }
  const most = Math.max(0, ...paths.map((p) => p.packets))
  return { nodes, edges, slowNode: slowest([...nodes.values()], (n) => n.held, most), slowEdge: slowest([...edges.values()], (e) => e.since, most) }
}

function addEdge(edges: Map<string, GraphEdge>, path: Path, from: Hop, to: Hop, packets: number, total: SegmentTotal | undefined): void {
  const key = from.segment
  const edge = edges.get(key) ?? { key, from: nodeKey(from), to: nodeKey(to), out: from.egress, in: to.ingress, packets: 0, share: 0, negative: 0, paths: new Set<string>(), hops: to.hops }
  edge.packets += path.packets
  edge.share = packets > 0 ? edge.packets / packets : 0
  edge.negative = total?.since_negative ?? 0
  edge.since = total?.since
  edge.paths.add(path.path)
  edges.set(key, edge)
}

/** How much slower than the next one is the slowest. Percentiles are within 2.2%, and small differences say nothing. */
export const notably = 1.2

/** The slowest, if it is notably slower than the next one. */
function slowest<T>(list: T[], of: (one: T) => Delays | undefined, most: number): T | undefined {
  const known = list.filter((one) => enough(of(one), most)).sort((a, b) => of(b)!.p99_ns - of(a)!.p99_ns)
  return known.length > 1 && of(known[0]!)!.p99_ns > notably * of(known[1]!)!.p99_ns ? known[0] : undefined
}

/**
 * The paths that a drawing has: the busiest with at least a hundredth of the packets, and those that add no line,
 * such as the incomplete ones of lost packets. Rare paths would make it a thicket.
 */
export function drawable(paths: Path[], most: number): Path[] {
  const chosen = paths.filter((p, i) => i < most && (i < 2 || p.share >= 0.01))
  const { edges: lines, nodes } = merge(chosen, { packets: 1 })
  const adds = (p: Path) => {
    const one = merge([p], { packets: 1 })
    return [...one.edges.keys()].some((key) => !lines.has(key)) || [...one.nodes.keys()].some((key) => !nodes.has(key))
  }
  return paths.filter((p) => chosen.includes(p) || !adds(p))
}

/** A path in words. */
export const route = (p: Pick<Path, 'hops'>): string => p.hops.map((h) => nodeName(h)).join(' → ')

/** A path of either period, with what it was in both. */
export interface Both { id: string; now?: Path; before?: Path; any: Path }

export function both(now: Path[], before: Path[]): Both[] {
  const found = new Map<string, Both>()
  for (const p of now) found.set(p.path, { id: p.path, now: p, any: p })
  for (const p of before) {
    const one = found.get(p.path)
    if (one) one.before = p
    else found.set(p.path, { id: p.path, before: p, any: p })
  }
  return [...found.values()]
}
