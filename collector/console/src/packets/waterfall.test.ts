// SPDX-License-Identifier: Apache-2.0

import { expect, test } from 'vitest'
import type { Packet, PacketNode } from '../types'
import { fate, marks, waterfall } from './waterfall'

const node = (ns: string | null, held?: number, error?: number): PacketNode =>
  ({ role: 'transit', timestamp: ns === null ? undefined : `2026-11-21T11:58:30.${ns}Z`, held_ns: held, clock_error_ns: error })

const packet = (nodes: PacketNode[], more: Partial<Packet> = {}): Packet =>
  ({ time: '', source: 'postcards', namespace: 1, next_header: 17, flow_label: 0, length: 100, reason: 'complete', verdict: 'arrived', path: '0', nodes, ...more })

test('times stay as they are, to the nanosecond', () => {
  const w = waterfall(packet([node('000000100', 50), node('000000400', 20), node(null, 10), node('000000900', 5)]))
  expect(w.steps.map((s) => s.at)).toEqual([0, 300, null, 800])
  expect(w.steps.map((s) => s.between)).toEqual([null, 250, null, 480])
  expect([w.length, w.back]).toEqual([805, 0])
})

test('a step back is shown as one, and the axis begins at the earliest time', () => {
  const w = waterfall(packet([node('000000500', 0, 100), node('000000300', 0, 100), node('000000100', 0, 10)]))
  expect(w.steps.map((s) => s.at)).toEqual([400, 200, 0])
  expect(w.steps.map((s) => s.back)).toEqual([0, 200, 200])
  expect(w.steps.map((s) => s.within)).toEqual([false, true, false])
  expect(w.steps[1]!.between).toBe(-200)
  const overlap = waterfall(packet([node('000000100', 500), node('000000300', 0)])).steps[1]!
  expect([overlap.back, overlap.overlap, overlap.between]).toEqual([0, true, -300])
})

test('a packet without times has steps without places', () => {
  const w = waterfall(packet([node(null, 5), node(null)]))
  expect([w.begin, w.steps.map((s) => s.at)]).toEqual([null, [null, null]])
})

test('an axis has round marks', () => {
  expect(marks(805, 5)).toEqual([0, 200, 400, 600, 800])
  expect(marks(1_000_000, 4)).toEqual([0, 500_000, 1_000_000])
})

test('the fate says no more than is known', () => {
  expect(fate(packet([], { verdict: 'lost', reason: 'not_seen_further' }))).toBe('It was lost. No decapsulating node reported it.')
  expect(fate(packet([], { verdict: 'unknown', reason: 'hop_missing' }))).toBe('A node between two that reported it did not. What became of it is not known.')
  expect(fate(packet([], { verdict: 'arrived', reason: 'new_reason' }))).toBe('Not complete: new reason.')
})
