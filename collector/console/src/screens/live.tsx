// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from 'preact/hooks'
import { address, type Failure, type Question } from '../ask'
import { count, duration, endpoint, nodeName, protocol, visible } from '../format'
import { add, emptyMinute, endOf, forget, leftOut, span, watch, type Minute, type State } from '../live'
import { Actions } from '../parts/actions'
import { Failed } from '../parts/answer'
import { Choice } from '../parts/choice'
import { Delay } from '../parts/delay'
import { savePNG } from '../export'
import { saveTable, Table, type Column } from '../parts/table'
import '../measures.css'
import { asked, zone } from '../question'
import { param, screenHref, visit } from '../route'
import { flowFilters, type Screen } from '../screen'
import { dark } from '../theme'
import { instantText, showClock } from '../time'
import { flowName, wayName } from './loss'
import type { Block, Event, Packet } from '../types'

const rates = { 20: '20 packets a second', 100: '100 packets a second', 1000: '1000 packets a second' }
/** How often it is drawn, in milliseconds. */
const pace = 500
const colours = ['--one', '--two', '--three', '--four', '--five']

const routeOf = (p: Packet) => p.nodes.map((n) => nodeName(n)).join(' → ')

const columns: Column<Packet>[] = [
  { key: 'time', title: 'Time', value: (p) => p.time, text: (p) => showClock(p.time, zone(), 6), width: 152 },
  { key: 'from', title: 'From', value: (p) => endpoint(p.source_address, p.source_port), width: 190, grows: true },
  { key: 'to', title: 'To', value: (p) => endpoint(p.destination_address, p.destination_port), width: 190, grows: true },
  { key: 'protocol', title: 'Protocol', value: (p) => protocol(p.next_header), width: 80 },
  { key: 'route', title: 'Path', value: routeOf, width: 240, grows: true },
  { key: 'delay', title: 'Delay', value: (p) => p.delay_ns, text: (p) => duration(p.delay_ns), number: true, width: 90, vital: true, show: (p) => <Delay ns={p.delay_ns} /> },
  { key: 'verdict', title: 'Became', value: (p) => p.verdict, width: 90, vital: true, show: (p) => <span class={p.verdict === 'lost' ? 'lost' : p.verdict === 'arrived' ? undefined : 'unknown'}>{visible(p.verdict)}</span> },
]

const eventColumns: Column<Event>[] = [
  { key: 'time', title: 'Time', value: (e) => e.time, text: (e) => showClock(e.time, zone(), 3), width: 110 },
  { key: 'node', title: 'Node', value: (e) => (e.node ? visible(e.node) : ''), width: 100 },
  { key: 'event', title: 'Event', value: (e) => visible(e.event), width: 170 },
  { key: 'text', title: 'What happened', value: (e) => visible(e.text), width: 320, grows: true, vital: true },
]

const blockColumns: Column<Block>[] = [
  { key: 'start', title: 'Block', value: (b) => b.start, text: (b) => showClock(b.start, zone(), 3), width: 110 },
  { key: 'flow', title: 'Flow', value: flowName, width: 120 },
  { key: 'way', title: 'Segment', value: (b) => (b.scope === 'whole' ? `whole way, ${wayName(b)}` : wayName(b)), width: 240, grows: true },
  { key: 'sent', title: 'Sent', value: (b) => b.sent, text: (b) => (b.sent === undefined ? '?' : count(b.sent)), number: true, width: 90 },
  {
    key: 'lost', title: 'Lost', value: (b) => b.lost, text: (b) => (b.lost === undefined ? '?' : count(b.lost)), number: true, width: 90, vital: true,
    show: (b) => (b.lost === undefined ? <span class="unknown" title={visible((b.reasons ?? []).join(', ').replaceAll('_', ' '))}>?</span> : b.lost > 0 ? <span class="lost">{count(b.lost)}</span> : '0'),
  },
  { key: 'verdict', title: 'Verdict', value: (b) => b.verdict, text: (b) => visible(b.verdict), width: 110 },
]

/** What the blocks of measured flows say, in a few words; segments say where, and the whole way how much. */
export function lossesOf(blocks: Block[]): string {
  const whole = blocks.filter((b) => b.scope === 'whole'), lost = whole.reduce((sum, b) => sum + (b.lost ?? 0), 0)
  const unknown = whole.filter((b) => b.lost === undefined).length
  return `${count(whole.length)} blocks, ${count(lost)} packets lost${unknown > 0 ? `, ${count(unknown)} blocks uncertain` : ''}`
}

const clockOf = (ms: number): string => showClock(instantText(BigInt(Math.round(ms)) * 1_000_000n), zone())

/** The busiest paths, for colours. */
export function busiest(packets: Packet[]): { path: string; name: string; packets: number }[] {
  const all = new Map<string, { path: string; name: string; packets: number }>()
  for (const p of packets) {
    if (p.verdict === 'lost') continue
    const one = all.get(p.path) ?? { path: p.path, name: routeOf(p), packets: 0 }
    one.packets++
    all.set(p.path, one)
  }
  return [...all.values()].sort((a, b) => b.packets - a.packets || a.path.localeCompare(b.path))
}

/** A step of the scale of delays, in nanoseconds. */
export function ticks(least: number, greatest: number): number[] {
  const list: number[] = []
  for (let v = 10 ** Math.floor(Math.log10(Math.max(1, least))); v <= greatest * 1.0001; v *= 10) if (v >= least) list.push(v)
  return list
}

interface Picture { packets: Minute['packets']; end: number; last: string; colour: (path: string) => string }

/** Draws each packet: across when it was seen, up its delay; lost ones are crosses at the foot. */
function draw(canvas: HTMLCanvasElement, { packets, end, last, colour }: Picture): void {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, left = 64, foot = 34, top = 10
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  const c = canvas.getContext('2d')!, style = getComputedStyle(document.documentElement), known = new Map<string, string>()
  const ink = (name: string) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim())
    return known.get(name)!
  }
  c.scale(ratio, ratio)
  c.font = '11px system-ui, sans-serif'
  const delays = packets.map((p) => p.packet.delay_ns ?? 0).filter((v) => v > 0)
  const least = 10 ** Math.floor(Math.log10(Math.max(1, delays.reduce((a, b) => Math.min(a, b), 1e6)))), greatest = delays.reduce((a, b) => Math.max(a, b), least * 10) * 1.3
  const x = (at: number) => left + (1 - (end - at) / span) * (width - left - 10)
  const y = (ns: number) => top + (1 - Math.log(Math.max(ns, least) / least) / Math.log(greatest / least)) * (height - top - foot - 14)
  c.strokeStyle = ink('--line')
  c.fillStyle = ink('--soft')
  c.textAlign = 'right'
  for (const v of ticks(least, greatest)) {
    c.beginPath()
    c.moveTo(left, y(v))
    c.lineTo(width - 10, y(v))
    c.stroke()
    c.fillText(duration(v), left - 8, y(v) + 4)
  }
  c.fillText('lost', left - 8, height - foot + 3)
  c.textAlign = 'center'
  for (let s = 0; s <= 60; s += 10) c.fillText(s === 0 ? last : `−${s} s`, Math.min(x(end - s * 1000), width - (s === 0 ? c.measureText(last).width / 2 + 4 : 18)), height - 6)
  for (const { at, packet } of packets) {
    if (packet.verdict === 'lost') {
      c.strokeStyle = ink('--bad')
      c.lineWidth = 1.5
      c.beginPath()
      c.moveTo(x(at) - 3, height - foot - 3)
      c.lineTo(x(at) + 3, height - foot + 3)
      c.moveTo(x(at) + 3, height - foot - 3)
      c.lineTo(x(at) - 3, height - foot + 3)
      c.stroke()
    } else if (packet.delay_ns !== undefined && packet.delay_ns > 0) {
      c.fillStyle = ink(colour(packet.path))
      c.globalAlpha = 0.75
      c.fillRect(x(at) - 1, y(packet.delay_ns) - 1, 2.2, 2.2)
      c.globalAlpha = 1
    }
  }
}

/** The answer in a sentence. before: when the minute ended, if it is not the last one. */
export function sentence(packets: Packet[], before = ''): string {
  const lost = packets.filter((p) => p.verdict === 'lost').length, when = before ? `the minute before ${before}` : 'the last minute'
  if (packets.length === 0) return `No packets in ${when}`
  const lossIsKnown = packets.some((p) => p.source === 'postcards') // a trace is lost with its packet
  return `${count(packets.length)} packets in ${when}; ${lost > 0 ? `${count(lost)} of them lost` : lossIsKnown ? 'none is known to be lost' : 'what was lost is not known'}`
}

interface Stream { minute: Minute; state: State; why: Failure | null; again: () => void }

function useStream(question: Question, paused: boolean): Stream {
  const minute = useRef<Minute>(emptyMinute())
  const [{ state, why }, setState] = useState<{ state: State; why: Failure | null }>({ state: 'connecting', why: null })
  const [, setTurn] = useState(0), [tries, setTries] = useState(0)
  const key = address(question)
  useEffect(() => { minute.current = emptyMinute() }, [key])
  useEffect(() => {
    if (paused) return
    let changed = true, open = false
    const close = watch(key, {
      event: (name, data, begins) => {
        if (begins) minute.current = emptyMinute()
        add(minute.current, name, data, Date.now())
        changed = true
      },
      state: (state, why) => {
        open = state === 'open'
        setState({ state, why })
      },
    })
    const timer = setInterval(() => {
      const before = minute.current.packets.length
      if (open) forget(minute.current, Date.now()) // else the picture stays as it was
      if (changed || open && before > 0) setTurn((n) => n + 1)
      changed = false
    }, pace)
    return () => {
      clearInterval(timer)
      close()
    }
  }, [key, paused, tries])
  return { minute: minute.current, state, why, again: () => setTries((n) => n + 1) }
}

/** Where a packet is on the screen of packets. */
const packetHref = (p: Packet): string => screenHref('packets', {
  since: '15m', from: null, until: null, ...(p.flow_id !== undefined && p.sequence !== undefined ? { flow_id: p.flow_id, sequence: p.sequence } : { source: p.source_address, destination: p.destination_address }),
})

const words: Record<State, string> = { connecting: 'Connecting', open: 'Live', broken: 'Not connected' }

function View() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [paused, setPaused] = useState(false)
  const { since: _since, from: _from, until: _until, ...filters } = asked(flowFilters)
  const rate = Object.hasOwn(rates, param('rate')) ? Number(param('rate')) : 100
  const question: Question = { path: '/v1/live', parameters: { ...filters, rate } }
  const { minute, state, why, again } = useStream(question, paused)
  const flows = !paused && state === 'open', end = endOf(minute, flows ? Date.now() : minute.heard)
  const packets = minute.packets.map((p) => p.packet), paths = busiest(packets)
  const colourOf = new Map(paths.slice(0, colours.length).map((p, i) => [p.path, colours[i]!]))
  const colour = (path: string) => colourOf.get(path) ?? colours.at(-1)!
  const scheme = dark.value
  useEffect(() => { if (canvas.current) draw(canvas.current, { packets: minute.packets, end, last: flows ? 'now' : clockOf(end), colour }) }, [minute, end, scheme, packets.length])
  const latest = [...packets].reverse(), undrawn = packets.filter((p) => p.verdict !== 'lost' && !((p.delay_ns ?? 0) > 0)).length
  const heading = minute.heard === 0 ? (state === 'broken' ? 'Not connected: what passes is not known' : 'Connecting') : sentence(packets, flows ? '' : clockOf(end))
  return (
    <>
      <div class="title">
        <h1>{heading}</h1>
        <Actions question={question} csv={() => saveTable('live', columns, latest)} png={() => savePNG('live', canvas.current!)} />
        <div class="choices">
          <span class={`state ${paused ? '' : state}`} role="status"><i aria-hidden="true" />{paused ? 'Paused' : words[state]}</span>
          <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? 'Go on' : 'Pause'}</button>
          <Choice name="rate" title="At most" of={rates} usual="100" />
          {leftOut(minute) > 0 && <span class="soft" title="There were more than the rate that is asked for, or the browser was too slow.">{count(leftOut(minute))} more are left out</span>}
        </div>
      </div>
      {!paused && state === 'broken' && <Failed of={why ?? { text: 'The collector cannot be reached.', status: 0, again: true }} again={again} />}
      {minute.astray > 0 && <p class="notice">The times of {count(minute.astray)} packets are more than a minute off, or ahead: the clock of a node, of the collector or of this browser is wrong. They are drawn when they came.</p>}
      {minute.fault && <p class="notice bad" role="alert">Nothing is written, and so nothing is shown: {visible(minute.fault)}</p>}
      <div class={`live${flows ? '' : ' kept'}`}><canvas ref={canvas} role="img" aria-label={`Delay of each packet of the last minute, by path. ${heading}`} /></div>
      <p class="legend">
        {paths.slice(0, colours.length).map((p, i) => <span key={p.path}><i style={{ background: `var(${colours[i]})` }} />{p.name}, {count(p.packets)}</span>)}
        <span><b class="lost" aria-hidden="true">×</b> lost</span>
        {undrawn > 0 && <span>{count(undrawn)} without a delay, or with a negative one, are only in the table</span>}
      </p>
      {minute.events.length > 0 && (
        <section>
          <h2>Events</h2>
          <Table name="events" title="Events" columns={eventColumns} rows={[...minute.events].reverse()} id={(e) => `${e.time} ${e.event} ${e.subject}`} height={180} />
        </section>
      )}
      {minute.blocks.length > 0 && (
        <section>
          <h2>Losses of measured flows <small>{lossesOf(minute.blocks)}; <a href={screenHref('loss', { since: '15m', from: null, until: null })}>the last 15 minutes</a></small></h2>
          <Table name="losses" title="Losses of measured flows" columns={blockColumns} rows={[...minute.blocks].reverse()} id={(b) => `${b.flow_id} ${b.scope} ${b.from} ${b.to} ${b.start}`} height={200} />
        </section>
      )}
      <section>
        <h2>Packets <small>the latest first; open one to see where it was when; <a href={screenHref('packets', { since: '15m', from: null, until: null })}>search</a></small></h2>
        <Table name="main" title="Packets" columns={columns} rows={latest} id={(p) => `${p.time} ${p.flow_id} ${p.sequence} ${p.path}`} open={(p) => visit(packetHref(p))} height={420} />
      </section>
    </>
  )
}

export default {
  id: 'live', title: 'Live', order: 7, about: 'What is kept, as it is kept, beginning with the last minute.', filters: flowFilters, timeless: true, view: View,
} satisfies Screen
