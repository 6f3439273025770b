// SPDX-License-Identifier: Apache-2.0

import { expect, test } from 'vitest'
import { add, emptyMinute, endOf, forget, leftOut } from './live'
import { fitted } from './parts/fit'
import { part } from './parts/rows'
import { narrowed, type Column } from './parts/table'
import { runs } from './parts/spark'
import { depth, matrix, sentence as gridSentence } from './screens/grid'
import { inOrder, sentence as lossSentence, stateOf, stepText, wayName } from './screens/loss'
import { busiest, lossesOf, sentence as liveSentence, ticks } from './screens/live'
import { sentence as eventSentence, textOf } from './screens/events'
import { lined } from './parts/over'
import { lostOf } from './parts/losses'
import { segmentName, sentence as segmentSentence } from './screens/segments'
import { inSteps, stepsOf } from './steps'
import type { Block, Event, FlowLoss, LossPoint, Losses, Packet, Pair, Segment } from './types'

test('a step without a point is not known', () => {
  const steps = stepsOf({ from: '2026-11-28T12:00:30Z', until: '2026-11-28T12:03:00Z', step_ns: 60e9 })
  expect(steps.length).toBe(3)
  const series = [{ time: '2026-11-28T12:00:00.000000000Z', n: 1 }, { time: '2026-11-28T12:02:00Z', n: 0 }]
  expect(inSteps(steps, series).map((p) => p?.n ?? null)).toEqual([1, null, 0])
  expect(stepsOf({ from: '2026-11-28T12:00:00Z', until: '2026-11-28T12:03:00Z' })).toEqual([])
  expect(runs([1, 1, null, 2], 30, 10, 2).map((r) => r.length)).toEqual([2, 1])
})

const loss = (blocks: number, uncertain: number, sent: number, lost: number): LossPoint =>
  ({ minute: '', time: '', blocks, blocks_uncertain: uncertain, sent, lost, ratio: sent ? lost / sent : undefined })

test('what is uncertain is neither zero nor lost', () => {
  expect([null, loss(0, 0, 0, 0), loss(3, 3, 0, 0), loss(3, 1, 20, 0), loss(3, 2, 10, 1), loss(2, 0, 0, 0)].map(stateOf)).toEqual(['none', 'none', 'uncertain', 'zero', 'lost', 'zero'])
  expect(stepText(loss(3, 3, 0, 0))).toContain('not known')
  expect(stepText(loss(3, 1, 20, 0))).toContain('1 of 3 blocks are uncertain')
})

const flow = (id: number, scope: string, from: number, to: number, sent: number, lost: number): FlowLoss =>
  ({ flow: `f${id}`, flow_id: id, scope, from, to, blocks: 1, blocks_uncertain: sent ? 0 : 1, sent, lost, ratio: sent ? lost / sent : undefined })

test('flows are in order of their loss, segments along the way', () => {
  const list = inOrder([flow(1, 'segment', 1, 2, 100, 0), flow(2, 'segment', 1, 2, 100, 5), flow(2, 'whole', 0, 2, 100, 5), flow(1, 'whole', 0, 2, 100, 0), flow(2, 'segment', 0, 1, 100, 0)])
  expect(list.map((f) => `${f.flow_id} ${f.scope} ${f.from}`)).toEqual(['2 whole 0', '2 segment 0', '2 segment 1', '1 whole 0', '1 segment 1'])
  const of = (flows: FlowLoss[]) => lossSentence({ flows, edge_flows: [] } as unknown as Losses)
  expect(of(list)).toBe('f2 loses 5.0% on point 1 → point 2')
  expect(of([flow(1, 'whole', 0, 2, 0, 0)])).toBe('Of no flow is the loss known')
  expect(of([flow(1, 'whole', 0, 2, 9, 0)])).toBe('No measured flow lost a packet in what is known')
  expect(wayName({ scope: 'segment', from: 0, to: 1, to_node: 'a\u202eb' })).toBe('ingress → a\\u202eb')
})

const delay = (p99: number) => ({ count: 1, mean_ns: p99, p50_ns: p99, p95_ns: p99, p99_ns: p99, max_ns: p99 })
const pair = (from: string, to: string | null, packets: number, p99 = 0): Pair =>
  ({ from: { node: from, exporter: from }, to: to === null ? undefined : { node: to, exporter: to }, packets, lost: to === null ? packets : 0, loss_known: true, paths: 1, delay: p99 ? delay(p99) : undefined })

test('a pair without packets has no cell', () => {
  const pairs = [pair('b', 'x', 5, 1000), pair('a', 'y', 9, 5000), pair('a', null, 2)], m = matrix(pairs)
  expect([m.from.map((f) => f.name), m.to.map((t) => t.name)]).toEqual([['a', 'b'], ['x', 'y']])
  expect([m.cells.size, m.unseen.get('a|a')?.lost, m.hidden]).toEqual([2, 2, 0])
  expect(m.from.map((f) => f.known)).toEqual([11, 5])
  const traces = matrix([{ ...pair('a', 'y', 9), loss_known: false }, pair('a', 'y', 4), { ...pair('b', null, 9), lost: 0, loss_known: false }])
  expect([traces.from.map((f) => f.known), traces.unseen.size, traces.cells.get('a|a y|y')?.packets]).toEqual([[4, 0], 0, 9])
  expect(gridSentence(pairs, 'p99_ns')).toBe('2 pairs of nodes; the slowest is a → y: 99th percentile 5.00 µs')
  expect([depth(10, 10, 1000), depth(100, 10, 1000), depth(1000, 10, 1000), depth(5, 5, 5)]).toEqual([0, 0.5, 1, 1])
})

test('the segments of packets that are not seen further', () => {
  const last: Segment = { segment: '1', namespace: 1, from: { node: 'a' }, packets: 3, lost: 0, loss_known: true }
  const gone: Segment = { ...last, egress: { index: 3, name: 'eth1' }, lost: 2 }
  expect([segmentName(last), segmentName(gone)]).toEqual(['a, the last node', 'a eth1 → not seen further'])
  expect(segmentSentence([gone], 'loss')).toBe('Most is lost after a eth1: 2 packets')
  expect([segmentSentence([last], 'loss'), segmentSentence([{ ...last, loss_known: false }], 'loss')]).toEqual(['No packet is known to be lost', 'Of no packet is it known whether it was lost'])
  expect([lostOf(last), lostOf({ ...last, loss_known: false }), lostOf({ ...gone, loss_known: false })]).toEqual([0, undefined, 2])
  expect(segmentSentence([last], 'link')).toBe('Of no segment is the delay known')
})

test('a step of which nothing is known breaks a line', () => {
  const points = [{ time: '2026-11-21T12:00:00Z', ns: 5 }, { time: '2026-11-21T12:02:00Z', ns: undefined }, { time: '2026-11-21T12:03:00Z', ns: 7 }]
  const steps = stepsOf({ from: '2026-11-21T12:00:00Z', until: '2026-11-21T12:04:00Z', step_ns: 60e9 })
  expect(lined(steps, [{ name: 'p99', points }])).toEqual([[5, null, null, 7]])
})

test('events say how many there are, and the last one', () => {
  const event = (severity: string): Event => ({ kind: 'event', time: 't', event: 'loss_began', severity, text: 'x' })
  expect([eventSentence([event('error'), event('info')], false), eventSentence([event('info')], true)]).toEqual(['2 events, 1 of them errors; the last: loss began', 'The latest 1 events; the last: loss began'])
  expect(textOf({ ...event('info'), text: 'a\u202eb', cure: 'do c' })).toBe('a\\u202eb; do c')
})

test('the losses of the live stream are those of whole ways', () => {
  const block = (scope: string, lost?: number): Block => ({ flow_id: 1, scope, from: 0, to: 1, start: 't', length_ns: 1, verdict: '', lost })
  expect(lossesOf([block('whole', 3), block('whole'), block('segment', 3)])).toBe('2 blocks, 3 packets lost, 1 blocks uncertain')
})

test('the live stream keeps a minute, and counts what is left out', () => {
  const m = emptyMinute(), at = Date.parse('2026-11-28T12:01:00Z')
  const packet = (time: string, verdict: string) => JSON.stringify({ time, verdict, path: verdict, nodes: [{ node: 'a' }] })
  add(m, 'begin', '{"from":"2026-11-28T12:00:00Z","missed":4}', at)
  add(m, 'path', packet('2026-11-28T11:59:50Z', 'arrived'), at)
  add(m, 'path', packet('2026-11-28T12:00:30Z', 'lost'), at)
  add(m, 'path', packet('2026-11-28T12:00:40Z', 'arrived'), at)
  add(m, 'path', packet('2026-11-28T03:00:00Z', 'arrived'), at) // by a clock that is hours off
  add(m, 'missed', '{"missed":3}', at)
  add(m, 'path', 'not JSON', at)
  add(m, 'heartbeat', '{"fault":"the disk is full"}', at)
  forget(m, at)
  const packets = m.packets.map((p) => p.packet)
  expect([packets.length, leftOut(m), m.astray, m.fault]).toEqual([3, 7, 1, 'the disk is full'])
  expect(liveSentence(packets)).toBe('3 packets in the last minute; 1 of them lost')
  expect(liveSentence([], '12:01:00')).toBe('No packets in the minute before 12:01:00')
  expect(m.heard).toBe(at)
  expect(busiest(packets).map((p) => p.name)).toEqual(['a'])
  expect(busiest([] as Packet[])).toEqual([])
  add(m, 'path', packet('2026-11-28T12:01:09Z', 'arrived'), at) // a clock that is a little ahead
  expect(endOf(m, at)).toBe(at + 9000)
  add(m, 'path', packet('2026-11-28T12:02:50Z', 'arrived'), at) // further ahead: it must not push out the others
  forget(m, at + 1000)
  expect([m.packets.length, m.astray]).toEqual([5, 2])
  forget(m, at + 61_000)
  expect([m.packets.length, leftOut(m)]).toEqual([1, 0])
  expect(ticks(1000, 1e6)).toEqual([1000, 1e4, 1e5, 1e6])
})

test('of many rows, those near the window are there, also when the list became shorter', () => {
  expect(part(0, 0, 270, 27)).toEqual([0, 0])
  expect(part(1000, 0, 270, 27)).toEqual([0, 23])
  expect(part(1000, 2700, 270, 27)).toEqual([88, 123])
  expect(part(1000, 26_730, 270, 27)).toEqual([978, 1000])
  expect(part(5, 26_730, 270, 27)).toEqual([0, 5]) // scrolled to what is not there any more
})

test('a name that is too long for its place loses whole characters', () => {
  const width = (text: string) => [...text].length
  expect(fitted('athos', 5, width)).toBe('athos')
  expect(fitted('dartagnan', 5, width)).toBe('dart…')
  expect(fitted('👩‍🔧👩‍🔧👩‍🔧', 5, width)).toBe('👩‍🔧…')
  expect(fitted('x', 0, width)).toBe('…')
})

test('in a narrow window, what matters most comes after the first column', () => {
  const column = (key: string, more: Partial<Column<number>> = {}): Column<number> => ({ key, title: key, value: (n) => n, width: 200, ...more })
  const list = narrowed([column('name', { grows: true }), column('hops'), column('lost', { vital: true }), column('path', { grows: true })], 300)
  expect(list.map((c) => `${c.key} ${c.width}`)).toEqual(['name 136', 'lost 200', 'hops 200', 'path 136'])
  expect(narrowed([column('name', { grows: true }), column('lost', { vital: true, width: 80 })], 250)[0]!.width).toBe(170)
})
