// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from 'vitest'
import { address, exact } from './ask'
import { command, curl, quoted } from './command'
import { csv, csvValue } from './export'
import { bytes, count, difference, duration, endpoint, nodeName, share, visible } from './format'
import { compareValues, sorted, type Column } from './parts/table'
import { carried, changed } from './route'
import { comparedSpan, instantText, nanoseconds, parseSpan, rangeOf, showRange, showTime, spanText } from './time'

describe('times', () => {
  test('keep every nanosecond', () => {
    for (const text of ['2026-11-21T11:58:30.000000123Z', '1969-12-31T23:59:59.999999999Z', '2026-11-21T11:58:30Z']) {
      expect(instantText(nanoseconds(text)!)).toBe(text)
    }
    expect(nanoseconds('2026-11-21T13:58:30.5+02:00')).toBe(nanoseconds('2026-11-21T11:58:30.500000000Z'))
    expect(nanoseconds('yesterday')).toBeNull()
    expect(nanoseconds('2026-13-40T00:00:00Z')).toBeNull()
    expect(showTime('2026-11-21T11:58:30.000000123Z', 'utc', 9)).toBe('2026-11-21 11:58:30.000000123')
    expect(showRange('2026-11-21T11:00:00Z', '2026-11-21T12:00:00Z', 'utc')).toBe('2026-11-21 11:00:00 – 12:00:00')
    expect(showRange('2026-11-20T11:00:00Z', '2026-11-21T12:00:00Z', 'utc')).toBe('2026-11-20 11:00:00 – 2026-11-21 12:00:00')
  })
  test('spans are those that the API reads', () => {
    expect(parseSpan('90s')).toBe(90_000)
    expect(parseSpan('1h30m')).toBe(5_400_000)
    expect(parseSpan('7d')).toBe(604_800_000)
    for (const bad of ['', '1', 'h', '-1h', '1h ', '0s', '1w']) expect(parseSpan(bad)).toBeNull()
    for (const text of ['90s', '15m', '1h', '7d']) expect(parseSpan(spanText(parseSpan(text)!))).toBe(parseSpan(text))
  })
  test('a range of the address becomes one of the API', () => {
    const of = (text: string) => rangeOf(new URLSearchParams(text))
    expect(of('')).toEqual({ since: '1h' })
    expect(of('since=15m&until=2026-11-21T12:00:00Z')).toEqual({ since: '15m', until: '2026-11-21T12:00:00Z' })
    expect(of('from=2026-11-21T12:00:00Z&since=1h')).toEqual({ from: '2026-11-21T12:00:00Z' })
  })
  test('a period is compared with one that began earlier', () => {
    const of = (text: string) => comparedSpan(new URLSearchParams(text), () => Date.parse('2026-11-21T12:00:00Z'))
    expect(of('')).toBeNull()
    expect(of('compare=7d&since=3h')).toBe('7d')
    expect(of('compare=soon')).toBeNull()
    expect(of('compare=previous')).toBe('1h')
    expect(of('compare=previous&since=15m')).toBe('15m')
    expect(of('compare=previous&from=2026-11-21T11:00:00.000000001Z&until=2026-11-21T11:30:00.000000001Z')).toBe('30m')
    expect(of('compare=previous&from=2026-11-21T11:00:00Z')).toBe('1h')
  })
})

describe('numbers', () => {
  test('durations have three digits, their sign and a unit', () => {
    const table: [number, string][] = [
      [0, '0 ns'], [999, '999 ns'], [1000, '1.00 µs'], [12_345, '12.3 µs'], [999_499, '999 µs'], [999_600, '1.00 ms'], [-12_345_678, '−12.3 ms'],
      [1.5e9, '1.50 s'], [119e9, '119 s'], [600e9, '10 min'], [36_000e9, '10.0 h'],
    ]
    for (const [ns, text] of table) expect(duration(ns)).toBe(text)
    for (const nothing of [null, undefined, NaN, Infinity]) expect(duration(nothing)).toBe('–')
  })
  test('a share that is there is not 0%, and what lacks a little is not 100%', () => {
    const table: [number, string][] = [[0, '0%'], [1, '100%'], [0.5, '50.0%'], [0.000001, '< 0.001%'], [0.0005, '0.050%'], [0.005, '0.50%'], [0.99999, '> 99.9%']]
    for (const [n, text] of table) expect(share(n)).toBe(text)
    expect(share(null)).toBe('–')
  })
  test('counts, bytes and differences', () => {
    expect(count(1234567)).toBe('1\u202f234\u202f567')
    expect(count(-1234)).toBe('−1\u202f234')
    expect(count(999)).toBe('999')
    expect(bytes(1_500_000)).toBe('1.50 MB')
    expect(difference(112, 100)).toBe('+12%')
    expect(difference(97, 100)).toBe('−3%')
    expect(difference(410, 100)).toBe('×4.1')
    expect(difference(10, 3200)).toBe('÷320')
    expect(difference(0, 100)).toBe('−100%')
    expect(difference(100, 0)).toBe('')
    expect(difference(-5, 100)).toBe('')
  })
})

describe('texts of the network', () => {
  test('show what has no width or turns the line', () => {
    expect(visible('a\u202eb\u0000\u001b[31m')).toBe('a\\u202eb\\u0000\\u001b[31m')
    expect(nodeName({ node: '<img src=x>' })).toBe('<img src=x>')
    expect(nodeName({ node_id: 7, exporter: '::1' })).toBe('node 7')
    expect(nodeName({})).toBe('unnamed node')
    expect(endpoint('2001:db8::1', 443)).toBe('[2001:db8::1]:443')
  })
  test('are words of a command, not commands', () => {
    expect(quoted(`x'; rm -rf ~ #`)).toBe(`'x'\\''; rm -rf ~ #'`)
    expect(quoted('2001:db8:1::/48')).toBe('2001:db8:1::/48')
    const q = { path: '/v1/paths', parameters: { since: '3h', source: '2001:db8::/32', destination_port: 443, limit: 20, lost: false, incomplete: true, from: null } }
    expect(command(q, 'http://[::1]:4780')).toBe(`waymark path history --collector 'http://[::1]:4780' --since 3h --source 2001:db8::/32 --destination-port 443 --limit 20`)
    expect(curl(q, 'http://localhost:4780')).toBe(`curl -s 'http://localhost:4780/v1/paths?since=3h&source=2001%3Adb8%3A%3A%2F32&destination_port=443&limit=20&incomplete=true'`)
    expect(command({ path: '/v1/health', parameters: {} }, 'x')).toBeNull()
    expect(command({ path: '/v1/packets', parameters: { from: '2026-11-21T11:00:00Z', until: '2026-11-21T12:00:00Z', lost: true, next_header: 6 } }, 'x'))
      .toBe('waymark packet history --collector x --since 2026-11-21T11:00:00Z --until 2026-11-21T12:00:00Z --lost --protocol 6')
    expect(command({ path: '/v1/paths', parameters: { since: '1h', compare: '24h', source_port: 53, where: 'delay_ns > 5 or complete' } }, 'x'))
      .toBe(`waymark path history --collector x --since 1h --compare 24h --source-port 53 --where 'delay_ns > 5 or complete'`)
    expect(command({ path: '/v1/paths', parameters: { since: '1h', segment: '0123456789abcdef', from_node_id: 1, to_node_id: '72057594037927935' } }, 'x'))
      .toBe('waymark path history --collector x --since 1h --segment 0123456789abcdef --from-node-id 1 --to-node-id 72057594037927935')
    expect(command({ path: '/v1/events', parameters: { since: '1h', event: 'loss_began' } }, 'x')).toBe('waymark events history --collector x --since 1h --event loss_began')
    expect(command({ path: '/v1/segments', parameters: { since: '1h', order: 'loss', buckets: 60, baseline: '24h' } }, 'x')).toBe('waymark segment history --collector x --since 1h --order loss --baseline 24h')
    expect(command({ path: '/v1/grid', parameters: { since: '1h', source: '2001:db8::/32', compare: '7d' } }, 'x')).toBe('waymark grid history --collector x --since 1h --source 2001:db8::/32 --compare 7d')
  })
  test('are no formulas in CSV', () => {
    expect(csvValue('=HYPERLINK("x")')).toBe(`"'=HYPERLINK(""x"")"`)
    expect(csvValue(-5)).toBe('-5')
    expect(csvValue('a,b\nc')).toBe('"a,b\nc"')
    expect(csv(['a', 'b'], [[1, null], ['x', true]])).toBe('a,b\r\n1,\r\nx,true\r\n')
  })
})

describe('the address', () => {
  test('keeps what is shared between screens', () => {
    expect(carried('?since=24h&sort=-p99&source=2001:db8::/32&open=1')).toBe('?since=24h&source=2001:db8::/32')
  })
  test('takes and loses settings', () => {
    expect(changed('?a=1&b=2', { a: null, c: 'x/y:z', d: false, e: true })).toBe('?b=2&c=x/y:z&e=true')
    expect(changed('?a=1', { a: '' })).toBe('')
  })
  test('of a question leaves out what is not asked', () => {
    expect(address({ path: '/v1/x', parameters: { a: '', b: null, c: 0, d: false, e: 'ü&' } })).toBe('/v1/x?c=0&e=%C3%BC%26')
  })
})

test('a node_id of 56 bits loses no bit where the browser gives the text of a number', () => {
  const value = (exact('{"node_id": 72057594037927935, "x": 1.5}') as { node_id: unknown; x: unknown })
  expect(value.x).toBe(1.5)
  // Node 20 gives no text of numbers; browsers do.
  expect(['72057594037927935', 72057594037927935]).toContain(value.node_id)
})

test('rows are sorted by value, and what is missing comes last both ways', () => {
  const columns: Column<{ n: number | null }>[] = [{ key: 'n', title: 'n', value: (r) => r.n, width: 1 }]
  const rows = [{ n: 2 }, { n: null }, { n: 10 }, { n: -1 }]
  expect(sorted(rows, columns, 'n').map((r) => r.n)).toEqual([-1, 2, 10, null])
  expect(sorted(rows, columns, '-n').map((r) => r.n)).toEqual([10, 2, -1, null])
  expect(sorted(rows, columns, 'other')).toBe(rows)
  expect(compareValues('node2', 'node10', false)).toBeLessThan(0)
})
