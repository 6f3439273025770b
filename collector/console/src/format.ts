// SPDX-License-Identifier: Apache-2.0

// Numbers for people. A value that is not there is '–', never 0.

export const none = '–'

type Maybe = number | null | undefined

/** 182 204, with narrow spaces. */
export function count(n: Maybe): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return none
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, '\u202f').replace('-', '−')
}

/** Three digits of a number: 1.23, 12.3, 123. */
function three(n: number): string {
  return n >= 99.95 ? n.toFixed(0) : n >= 9.995 ? n.toFixed(1) : n.toFixed(2)
}

/** Nanoseconds as ns, µs, ms, s, min or h. Negative ones have a minus. */
export function duration(ns: Maybe): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return none
  const size = Math.abs(ns), sign = ns < 0 ? '−' : ''
  if (size < 1000) return `${sign}${Math.round(size)} ns`
  for (const [unit, of, less] of [['µs', 1e3, 999.5e3], ['ms', 1e6, 999.5e6], ['s', 1e9, 119.5e9]] as const) {
    if (size < less) return `${sign}${three(size / of)} ${unit}`
  }
  const minutes = Math.round(size / 60e9)
  return minutes < 120 ? `${sign}${minutes} min` : `${sign}${three(size / 3600e9)} h`
}

/** A share from 0 to 1 in per cent. What is there is never 0%, what lacks a little is never 100%. */
export function share(part: Maybe): string {
  if (part === null || part === undefined || !Number.isFinite(part)) return none
  const percent = part * 100
  if (percent === 0) return '0%'
  if (percent < 0.001) return '< 0.001%'
  if (percent < 0.1) return `${percent.toFixed(3)}%`
  if (percent < 1) return `${percent.toFixed(2)}%`
  if (percent > 99.9 && percent < 100) return '> 99.9%'
  return `${percent < 99.95 ? percent.toFixed(1) : '100'}%`
}

export function bytes(n: Maybe): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return none
  for (const [unit, of] of [['TB', 1e12], ['GB', 1e9], ['MB', 1e6], ['kB', 1e3]] as const) {
    if (n >= of) return `${three(n / of)} ${unit}`
  }
  return `${n} B`
}

/** How a delay differs from the one before: +12%, −3%, ×4.1, ÷3.2; '' if one is not known. */
export function difference(now: Maybe, before: Maybe): string {
  if (now === null || now === undefined || before === null || before === undefined || before <= 0 || now < 0) return ''
  const ratio = now / before
  const times = (n: number) => (n >= 10 ? n.toFixed(0) : n.toFixed(1))
  if (ratio >= 2) return `×${times(ratio)}`
  if (ratio <= 0.5 && ratio > 0) return `÷${times(1 / ratio)}`
  const percent = Math.round((ratio - 1) * 100)
  return percent === 0 ? '±0%' : percent > 0 ? `+${percent}%` : `−${-percent}%`
}

const protocols: Record<number, string> = { 0: 'hop-by-hop', 1: 'ICMP', 4: 'IPv4', 6: 'TCP', 17: 'UDP', 41: 'IPv6', 43: 'routing', 47: 'GRE', 50: 'ESP', 58: 'ICMPv6', 89: 'OSPF', 103: 'PIM', 132: 'SCTP' }

export const protocol = (number: number): string => protocols[number] ?? `protocol ${number}`

interface NodeLike { node?: string; exporter?: string; node_id?: number | string }

/** A node's name; without one its number, else its address. */
export function nodeName(n: NodeLike | null | undefined): string {
  if (!n) return none
  if (n.node) return visible(n.node)
  if (n.node_id !== undefined) return `node ${n.node_id}`
  return n.exporter ?? 'unnamed node'
}

interface InterfaceLike { index: number; name?: string }

export const interfaceName = (i: InterfaceLike | null | undefined): string => (i ? (i.name ? visible(i.name) : `#${i.index}`) : none)

/** Text of the network: what has no width or turns the direction of writing is shown as a code. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, '0')}`)
}

/** An address with its port. */
export function endpoint(address: string | undefined, port: number | undefined): string {
  if (!address) return none
  if (port === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

interface Percentiles { p50_ns: number; p95_ns: number; p99_ns: number }

/** Three percentiles with one unit: 12.3 / 30.1 / 88.0 µs. */
export function triple(d: Percentiles): string {
  const greatest = Math.max(d.p50_ns, d.p95_ns, d.p99_ns)
  const [unit, of] = greatest < 1000 ? ['ns', 1] : greatest < 999.5e3 ? ['µs', 1e3] : greatest < 999.5e6 ? ['ms', 1e6] : ['s', 1e9]
  return `${[d.p50_ns, d.p95_ns, d.p99_ns].map((ns) => (of === 1 ? String(Math.round(ns)) : three(ns / of))).join(' / ')} ${unit}`
}

/** The style of a bar that is as long as a share. */
export const shareBar = (part: Maybe): { width: string } => ({ width: `${Math.max(0, Math.min(1, part ?? 0)) * 100}%` })
