// SPDX-License-Identifier: Apache-2.0

import { expect, test } from 'vitest'
import type { Change, Share } from '../types'
import { groups, histogram, meanDelay, moved, others, rowOf, words } from './group'

const taken = (path: string, part: number, delay?: number): Share => ({ path, share: part, packets: part * 100, delay_mean_ns: delay, nodes: [...path].map((node) => ({ node })) })
const change = (source: string, time: string, was: Share[], became: Share[]): Change => ({ source, destination: 'd', namespace: 1, time, before: time, moved: 1, was, became })

const t1 = '2026-11-21T11:00:10Z', t2 = '2026-11-21T11:00:50Z'
const rows = [
  change('a', t2, [taken('xuz', 1, 100)], [taken('xvz', 0.8, 300), taken('xwz', 0.2, 500)]), change('b', t1, [taken('xuz', 1, 200)], [taken('xvz', 1, 400)]),
  change('c', t1, [taken('xuz', 1)], [taken('xvz', 1, 600)]), change('e', t1, [taken('xvz', 1)], [taken('xuz', 1)]),
].map(rowOf)

test('pairs that moved together are one group, the greatest first', () => {
  const g = groups(rows)
  expect(g.map((one) => [one.time, one.rows.map((r) => r.change.source).join(''), words(one.was), words(one.became)])).toEqual([
    [t1, 'bc', 'x → u → z', 'x → v → z'], [t2, 'a', 'x → u → z', 'x → v → z'], [t1, 'e', 'x → v → z', 'x → u → z'],
  ])
  expect([g[0]!.before, g[0]!.after]).toEqual([200, 400]) // a delay that is not known is not 0
})

test('a side has the mean of what is known', () => {
  expect(meanDelay(rows[0]!.change.became)).toBeCloseTo(340)
  expect(meanDelay([taken('x', 1)])).toBeUndefined()
  // The greatest share is not what moved.
  const was = [taken('xuz', 0.9), taken('xwz', 0.1)], became = [taken('xuz', 0.5), taken('xvz', 0.4), taken('xwz', 0.1)]
  expect([moved(was, became)?.path, moved(became, was)?.path]).toEqual(['xuz', 'xvz'])
  expect([...others(taken('xvz', 1), [taken('xuz', 1)])]).toEqual(['v'])
})

test('a step without changes is a zero, and none is lost at the ends', () => {
  const h = histogram(rows, '2026-11-21T11:00:20Z', '2026-11-21T11:00:50Z', 3)
  expect(h.counts).toEqual([3, 0, 1])
  expect(h.step).toBe(10)
})
