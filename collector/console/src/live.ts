// SPDX-License-Identifier: Apache-2.0

// The live stream: what was kept in the last minute, and then what is kept, as it is kept.
import { exact, patience, reasonOf, type Failure } from './ask'
import type { Begun, Block, Event, Heartbeat, Missed, Packet } from './types'

/** How far back it is looked, in milliseconds. */
export const span = 60_000
/** The most of each kind that is remembered: at the greatest rate, the oldest leave first. */
const mostPackets = 30_000, mostOthers = 500

export type State = 'connecting' | 'open' | 'broken'

/** What the stream said in the last minute. */
export interface Minute {
  packets: { at: number; packet: Packet }[]
  blocks: Block[]
  events: Event[]
  /** How many were left out, and when that was said. */
  missed: { at: number; count: number }[]
  /** Packets whose times are far from now: a clock is wrong. They stand where they came. */
  astray: number
  fault: string
  /** When something was heard last: while nothing is, what passes is not known. */
  heard: number
}

export const emptyMinute = (): Minute => ({ packets: [], blocks: [], events: [], missed: [], astray: 0, fault: '', heard: 0 })

/** Milliseconds of a packet's time; what cannot be read is now. */
const timeOf = (text: string, now: number): number => {
  const at = Date.parse(text)
  return Number.isNaN(at) ? now : at
}

function leaveOut(m: Minute, count: number, at: number): void {
  if (count > 0) m.missed.push({ at, count })
}

/** How many were left out in the last minute. */
export const leftOut = (m: Minute): number => m.missed.reduce((sum, one) => sum + one.count, 0)

/** Adds an event of the stream; the minute is changed. */
export function add(m: Minute, name: string, text: string, now: number): void {
  let data: unknown
  try {
    data = exact(text)
  } catch {
    return // it is not of this stream
  }
  m.heard = now
  switch (name) {
    case 'begin':
      leaveOut(m, (data as Begun).missed, now)
      break
    case 'path': {
      const time = timeOf((data as Packet).time, now), wrong = time > now + 10_000 || time < now - 1.5 * span
      if (wrong) m.astray++
      m.packets.push({ at: wrong ? now : time, packet: data as Packet })
      if (m.packets.length > mostPackets) leaveOut(m, m.packets.splice(0, m.packets.length - mostPackets).length, now)
      break
    }
    case 'loss':
      m.blocks.push(data as Block)
      m.blocks.splice(0, m.blocks.length - mostOthers)
      break
    case 'event':
      m.events.push(data as Event)
      m.events.splice(0, m.events.length - mostOthers)
      break
    case 'missed':
      leaveOut(m, (data as Missed).missed, now)
      break
    case 'heartbeat':
      m.fault = (data as Heartbeat).fault ?? ''
      break
  }
}

/** The time that a picture ends with: now, or the latest packet if its clock is ahead. */
export const endOf = (m: Minute, now: number): number => m.packets.reduce((latest, p) => Math.max(latest, p.at), now)

/** Forgets what is older than the minute. */
export function forget(m: Minute, now: number): void {
  m.packets = m.packets.filter((p) => p.at > now - span)
  m.missed = m.missed.filter((one) => one.at > now - span)
  m.blocks = m.blocks.filter((b) => timeOf(b.start, now) > now - 2 * span)
}

const names = ['begin', 'path', 'loss', 'event', 'missed', 'heartbeat']

/** Heartbeats come every 5 seconds: after so many milliseconds of silence, the stream is dead, as after a laptop slept. */
const silence = 20_000
/** A stream that ends is opened again by the browser, which takes 2 seconds: nothing that a person must know. */
const short = 5000

export interface Listener {
  /** An event came. begins: of a stream that is not the continuation of the one before; it has the whole minute. */
  event: (name: string, data: string, begins: boolean) => void
  state: (s: State, why: Failure | null) => void
}

/** Opens a stream, and again when it ends; the function that is returned closes it for ever. */
export function watch(address: string, to: Listener): () => void {
  const stop = new AbortController()
  let source: EventSource, heard = Date.now(), begins = true, later: ReturnType<typeof setTimeout> | undefined
  const after = (ms: number, what: () => void) => {
    clearTimeout(later)
    later = setTimeout(what, ms)
  }
  function open() {
    source?.close()
    source = new EventSource(address)
    heard = Date.now()
    begins = true
    source.onopen = () => {
      heard = Date.now()
      clearTimeout(later)
      to.state('open', null)
    }
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) void refused()
      else after(short, () => to.state('broken', null)) // the browser tries again, with the last id that it had
    }
    for (const name of names) {
      source.addEventListener(name, (event) => {
        heard = Date.now()
        to.event(name, (event as MessageEvent<string>).data, begins && name === 'begin')
        if (name === 'begin') begins = false
      })
    }
  }
  /** A browser does not try again after an answer that is an error, and does not tell it. */
  async function refused() {
    const why = await reasonOf(address, stop.signal)
    if (stop.signal.aborted) return
    to.state('broken', why)
    after(patience, open)
  }
  to.state('connecting', null)
  open()
  const watchdog = setInterval(() => {
    if (Date.now() - heard < silence || source.readyState === EventSource.CLOSED) return
    to.state('broken', null)
    open()
  }, 1000)
  return () => {
    clearInterval(watchdog)
    clearTimeout(later)
    stop.abort()
    source.close()
  }
}
