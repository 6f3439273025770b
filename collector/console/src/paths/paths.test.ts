// SPDX-License-Identifier: Apache-2.0

import { expect, test } from 'vitest'
import type { Delays, Hop, NodeTotal, Path, SegmentTotal } from '../types'
import { curve, fitting, nodeWidth, place } from './layout'
import { both, drawable, merge, route } from './merge'

const delays = (p99: number, count = 100): Delays => ({ count, mean_ns: p99 / 2, p50_ns: p99 / 2, p95_ns: p99 * 0.9, p99_ns: p99, max_ns: p99 * 2 })

function path(id: string, nodes: string[], packets: number, more: Partial<Path> = {}): Path {
  const hops = nodes.map((node, i): Hop => ({
    node, node_id: i, exporter: `::${node}`, role: 'transit', segment: `${node}>${nodes[i + 1] ?? ''}`, egress: { index: 2 }, ingress: { index: 1 },
    since: i > 0 ? delays(5000) : undefined,
  })).map((h) => ({ ...h, node_id: undefined }))
  return { path: id, namespace: 1, complete: true, packets, share: packets / 1000, bytes: 0, incomplete: 0, lost: 0, loss_known: true, first: '', last: '', hops, ...more }
}

const a = path('a', ['in', 'up', 'out'], 600), b = path('b', ['in', 'slow', 'out'], 380), c = path('c', ['in', 'up'], 15, { complete: false, lost: 15 }), d = path('d', ['x', 'y'], 5)

const slowAfter: SegmentTotal[] = [{ segment: 'in>slow', packets: 380, since: delays(20_000), since_negative: 3 }, { segment: 'in>up', packets: 615, since: delays(5000) }]
const held = (slow: number, count = 100): NodeTotal[] => ['in', 'up', 'slow', 'out'].map((node) => ({ node, exporter: `::${node}`, packets: count, held: delays(node === 'slow' ? slow : 1000, node === 'slow' ? count : 900) }))

test('what paths share is there once, with all their packets and what was measured of all', () => {
  const g = merge([a, b, c, d], { packets: 1000, nodes: held(9000), segments: slowAfter })
  expect([...g.nodes.values()].map((n) => [n.name, n.packets, n.paths, n.lost])).toEqual([['in', 995, 3, 0], ['up', 615, 2, 15], ['out', 980, 2, 0], ['slow', 380, 1, 0], ['x', 5, 1, 0], ['y', 5, 1, 0]])
  const first = [...g.edges.values()][0]!
  expect([first.packets, first.share, first.paths.size, first.since?.p99_ns]).toEqual([600 + 15, 0.615, 2, 5000])
  expect(g.slowNode?.name).toBe('slow')
  expect(g.nodes.get(g.slowEdge!.to)?.name).toBe('slow')
  expect(g.slowEdge!.negative).toBe(3)
  expect(merge([a], { packets: 600, nodes: held(1100) }).slowNode).toBeUndefined() // a little slower is not the slowest
})

test('percentiles of few packets mark nothing', () => {
  expect(merge([a, b], { packets: 980, nodes: held(9000, 3) }).slowNode).toBeUndefined()
})

test('two links between the same nodes are two lines', () => {
  const other = path('e', ['in', 'up', 'out'], 10)
  other.hops[0]!.segment = 'another'
  expect(merge([a, other], { packets: 610 }).edges.size).toBe(3)
})

test('rare paths are not drawn, unless they add no line', () => {
  expect(drawable([a, b, c, d], 12).map((p) => p.path)).toEqual(['a', 'b', 'c'])
})

test('both periods have the union of paths', () => {
  expect(both([a, b], [b, d]).map((p) => [p.id, p.now?.path, p.before?.path])).toEqual([['a', 'a', undefined], ['b', 'b', 'b'], ['d', undefined, 'd']])
  expect(route(a)).toBe('in → up → out')
})

test('a layout has a place for everything, in layers, and turns where it is narrow', () => {
  const g = merge([a, b, path('loop', ['in', 'up', 'in', 'out'], 5)], { packets: 1000 })
  const across = place([g], false)
  const x = (name: string) => across.nodes.get([...g.nodes.values()].find((n) => n.name === name)!.key)!.x
  expect(across.nodes.size).toBe(4)
  expect(across.edges.size).toBe(g.edges.size)
  expect(x('in')).toBeLessThan(x('slow'))
  expect(x('slow')).toBeLessThan(x('out'))
  const narrow = fitting([merge([path('long', ['1', '2', '3', '4', '5'], 10)], { packets: 10 })], 360)
  expect(narrow.width).toBeLessThan(nodeWidth * 2.5)
  expect(curve([{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 20, y: 5 }])).toBe('M0 0Q10 0 15 2.5L20 5')
})
