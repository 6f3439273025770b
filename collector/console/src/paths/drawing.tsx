// SPDX-License-Identifier: Apache-2.0

// The paths as a drawing. What it shows is also in the tables.
import type { Ref } from 'preact'
import { count, share, triple, visible, interfaceName } from '../format'
import type { Graph, GraphEdge, GraphNode } from './merge'
import { fit } from '../parts/fit'
import { nodeHeight, nodeWidth, type Layout } from './layout'

interface Props {
  graph: Graph
  layout: Layout
  /** A path that stands out. */
  chosen: string
  label: string
  svg?: Ref<SVGSVGElement>
}

/** As .name in the styles. */
const nameFont = '600 12.5px system-ui, "Noto Sans", sans-serif'

/** Less than this cannot be read: then the drawing scrolls. */
const least = 0.7

export function Drawing({ graph, layout, chosen, label, svg }: Props) {
  const edges = [...graph.edges.values()].sort((a, b) => Number(a.paths.has(chosen)) - Number(b.paths.has(chosen)))
  const on = new Set(edges.filter((e) => e.paths.has(chosen)).flatMap((e) => [e.from, e.to]))
  return (
    <div class="drawing" tabIndex={0} role="region" aria-label={label}>
      <svg ref={svg} style={{ minWidth: `${layout.width * least}px` }} viewBox={`0 0 ${layout.width} ${layout.height}`} width={layout.width} height={layout.height} role="img" aria-label="Graph" class={chosen ? 'choosing' : ''}>
        {[...layout.edges].filter(([key]) => !graph.edges.has(key)).map(([key, e]) => <path key={key} class="edge gone" d={e.line} />)}
        {[...layout.nodes].filter(([key]) => !graph.nodes.has(key)).map(([key, at]) => <rect key={key} class="node gone" x={at.x - nodeWidth / 2} y={at.y - nodeHeight / 2} width={nodeWidth} height={nodeHeight} rx={4} />)}
        {edges.map((e) => <Line key={e.key} edge={e} layout={layout} slow={e === graph.slowEdge} chosen={e.paths.has(chosen)} />)}
        {edges.map((e) => <Label key={e.key} edge={e} layout={layout} slow={e === graph.slowEdge} chosen={e.paths.has(chosen)} />)}
        {[...graph.nodes.values()].map((n) => <Box key={n.key} node={n} layout={layout} slow={n === graph.slowNode} chosen={on.has(n.key)} />)}
      </svg>
    </div>
  )
}

const classes = (base: string, slow: boolean, chosen: boolean) => `${base}${slow ? ' slowest' : ''}${chosen ? ' chosen' : ''}`

function Line({ edge, layout, slow, chosen }: { edge: GraphEdge; layout: Layout; slow: boolean; chosen: boolean }) {
  const at = layout.edges.get(edge.key)
  if (!at) return null
  return <path class={classes('edge', slow, chosen)} d={at.line} style={{ strokeWidth: `${(1.2 + 5.5 * Math.sqrt(Math.min(1, edge.share))).toFixed(2)}px` }} />
}

function Label({ edge, layout, slow, chosen }: { edge: GraphEdge; layout: Layout; slow: boolean; chosen: boolean }) {
  const at = layout.edges.get(edge.key)?.label
  if (!at) return null
  const text = edge.since ? triple(edge.since) : edge.negative > 0 ? 'negative' : 'no times'
  return (
    <g class={classes('label', slow, chosen)}>
      <title>{`${interfaceName(edge.out)} → ${interfaceName(edge.in)}: ${count(edge.packets)} packets, ${share(edge.share)}; time between the two nodes, p50 / p95 / p99: ${text}${edge.negative ? `; ${count(edge.negative)} negative, because the clocks differ` : ''}${edge.hops !== undefined && edge.hops > 1 ? `; ${edge.hops} hops: nodes between did not report` : ''}`}</title>
      <text class="share" x={at.x} y={at.y - 6}>{share(edge.share)}{edge.hops !== undefined && edge.hops > 1 ? ` · ${edge.hops} hops` : ''}{edge.since && edge.negative > 0 && <tspan class="neg"> {share(edge.negative / edge.packets)} negative</tspan>}</text>
      <text class={`times${edge.since ? '' : ' none'}`} x={at.x} y={at.y + 14}>{text}</text>
    </g>
  )
}

function Box({ node, layout, slow, chosen }: { node: GraphNode; layout: Layout; slow: boolean; chosen: boolean }) {
  const at = layout.nodes.get(node.key)
  if (!at) return null
  const x = at.x - nodeWidth / 2, y = at.y - nodeHeight / 2, lost = node.lost > 0 ? `${count(node.lost)} lost` : ''
  const room = nodeWidth - 18 - (lost ? lost.length * 6 + 8 : 0)
  return (
    <g class={classes('box', slow, chosen)}>
      <title>{`${node.name} (${visible(node.title)}): ${count(node.packets)} packets, held p50 / p95 / p99: ${node.held ? triple(node.held) : 'not known'}${node.lost ? `; ${count(node.lost)} lost after it` : ''}`}</title>
      <rect class="node" x={x} y={y} width={nodeWidth} height={nodeHeight} rx={4} />
      <text class="name" x={x + 9} y={y + 16}>{fit(node.name, room, nameFont)}</text>
      {lost && <text class="losses" x={x + nodeWidth - 8} y={y + 16}>{lost}</text>}
      <text class={`times${node.held ? '' : ' none'}`} x={x + 9} y={y + 31}>{node.held ? triple(node.held) : 'held: not known'}</text>
    </g>
  )
}
