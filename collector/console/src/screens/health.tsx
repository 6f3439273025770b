// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef } from 'preact/hooks'
import { reload, useAnswer, type Head, type Question } from '../ask'
import { bytes, count, duration, visible } from '../format'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { drawTable, saveTable, Table, type Column } from '../parts/table'
import { zone } from '../question'
import type { Screen } from '../screen'
import '../measures.css'
import { showTime } from '../time'
import type { Exporter, Health, LostRecords } from '../types'

/** How often it is asked again, in milliseconds. */
const again = 10_000
/** Beyond it, a value is marked; the collector has the same limit for its warnings. */
const wrongClock = 1e9

export const exporterName = (e: Exporter): string => (e.node ? visible(e.node) : `${e.exporter}, domain ${e.domain}`)

/** How an exporter's last message is marked, by its state. */
const lastClass: Record<string, string | undefined> = { silent: 'slow', gone: 'unknown' }

const last = (e: Exporter) => `${duration(e.silent_ns)}${e.state === 'sends' ? ' ago' : `, ${visible(e.state)}`}`

const transports = (e: Exporter) => [...new Set(e.sessions.map((s) => s.transport))].join(', ')

const exporters: Column<Exporter>[] = [
  { key: 'name', title: 'Exporter', value: exporterName, width: 140, grows: true },
  { key: 'address', title: 'Address', value: (e) => e.exporter, width: 150, grows: true },
  { key: 'domain', title: 'Domain', about: 'Observation Domain ID', value: (e) => e.domain, number: true, width: 80 },
  { key: 'sessions', title: 'Sessions', value: (e) => e.sessions.length, text: (e) => (e.sessions.length ? `${e.sessions.length} ${transports(e)}` : 'none'), width: 80, show: (e) => (e.sessions.length ? `${e.sessions.length} ${transports(e)}` : <span class="unknown">none</span>) },
  {
    key: 'silent', title: 'Last message', about: 'How long ago its last message came. silent: for 5 minutes; gone: for 24 hours, and nothing is said of it any more.',
    value: (e) => e.silent_ns, text: last, number: true, width: 148, vital: true, show: (e) => <span class={lastClass[e.state]}>{last(e)}</span>,
  },
  { key: 'messages', title: 'Messages', value: (e) => e.messages, text: (e) => count(e.messages), number: true, width: 90 },
  { key: 'records', title: 'Records', value: (e) => e.records, text: (e) => count(e.records), number: true, width: 100 },
  { key: 'missed', title: 'Missed', about: 'Records that did not come, by the numbers of messages', value: (e) => e.missed, text: (e) => count(e.missed), number: true, width: 80, vital: true, show: (e) => <span class={e.missed ? 'lost' : undefined}>{count(e.missed)}</span> },
  { key: 'breaks', title: 'Gaps', about: 'Times when any number of records may be missing, as after a restart', value: (e) => e.breaks, text: (e) => count(e.breaks), number: true, width: 70 },
  { key: 'malformed', title: 'Malformed', value: (e) => e.malformed, text: (e) => count(e.malformed), number: true, width: 104, show: (e) => <span class={e.malformed ? 'lost' : undefined}>{count(e.malformed)}</span> },
  {
    key: 'clock', title: 'Clock ahead', about: 'How much its clock is ahead of the collector’s, at least; the time on the way makes it a little negative. Nothing is corrected by it.',
    value: (e) => e.clock_ahead_ns, text: (e) => duration(e.clock_ahead_ns), number: true, width: 104, show: (e) => <span class={Math.abs(e.clock_ahead_ns) > wrongClock ? 'slow' : undefined}>{duration(e.clock_ahead_ns)}</span>,
  },
  { key: 'lag', title: 'Lag', about: 'How old its newest postcard was when it came, by both clocks', value: (e) => e.lag_ns, text: (e) => duration(e.lag_ns), number: true, width: 90 },
]

const lost: Column<LostRecords>[] = [
  { key: 'stage', title: 'Stage', value: (l) => visible(l.stage), width: 100 },
  { key: 'text', title: 'What was lost', value: (l) => visible(l.text), width: 300, grows: true, vital: true },
  { key: 'cause', title: 'In the metrics', value: (l) => visible(l.cause), width: 200 },
  { key: 'count', title: 'How many', value: (l) => l.count, text: (l) => count(l.count), number: true, width: 100, vital: true },
]

function Store({ h }: { h: Health }) {
  const facts: [string, preact.ComponentChildren][] = [
    ['Directory', <code>{visible(h.store.directory)}</code>],
    ['Files', <>{count(h.store.files)}, {bytes(h.store.bytes)}{h.store.files_lost > 0 && <span class="lost">, and {count(h.store.files_lost)} that cannot be read</span>}</>],
    ['Disk', <>{bytes(h.store.disk_free)} free</>],
    ['Kept', <>{count(h.store.packets)} packets, {count(h.store.records)} other records</>],
    ['Since', h.store.files > 0 ? `${showTime(h.store.first, zone())}, for ${duration(h.store.kept_ns)}` : <span class="unknown">no file</span>],
    ['Written', <>{count(h.records.written)} records; {count(h.records.waiting)} wait{(h.records.lost ?? 0) + (h.records.dropped ?? 0) > 0 && <span class="lost">; {count((h.records.lost ?? 0) + (h.records.dropped ?? 0))} lost</span>}</>],
    ['Joining', h.waiting === 1 ? '1 packet waits for postcards' : <>{count(h.waiting)} packets wait for postcards</>],
    ['Runs', <>since {showTime(h.began, zone())}</>],
  ]
  return (
    <section>
      <h2>Store</h2>
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  )
}

/** The state in a sentence. */
export function sentence(h: Health): string {
  if (h.store.fault) return 'Nothing is written'
  const state = (s: string) => h.exporters.filter((e) => e.state === s).length
  const gone = state('gone'), all = h.exporters.length - gone
  const missed = h.lost.reduce((sum, l) => sum + l.count, 0)
  const parts = [h.exporters.length === 0 ? 'No exporter sends' : `${count(state('sends'))} of ${count(all)} exporters send`]
  if (gone > 0) parts[0] += `, ${count(gone)} ${gone === 1 ? 'is' : 'are'} gone`
  parts.push(missed > 0 ? `${count(missed)} records, messages or packets were lost on their way into the store` : 'nothing was lost on its way into the store')
  return parts.join('; ')
}

function View() {
  const question: Question = { path: '/v1/health', parameters: {} }
  const answer = useAnswer<Health & Head>(question)
  const waits = useRef(false)
  waits.current = answer.loading // asking again would begin a slow answer anew, for ever
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible' && !waits.current) reload() }, again)
    return () => clearInterval(timer)
  }, [])
  return (
    <Shown of={answer}>
      {(h) => (
        <>
          <div class="title">
            <h1>{sentence(h)}</h1>
            <Actions question={question} csv={() => saveTable('exporters', exporters, h.exporters)} png={() => drawTable('exporters', exporters, h.exporters)} />
          </div>
          {h.store.fault && <p class="notice bad" role="alert">Nothing is written: {visible(h.store.fault)}{h.store.cure && `; ${visible(h.store.cure)}`}</p>}
          {h.warnings.map((w) => <p class="notice" key={w}>{visible(w)}</p>)}
          <section>
            <h2>Exporters <small>what they sent since the collector runs</small></h2>
            {h.exporters.length > 0
              ? <Table name="main" title="Exporters" columns={exporters} rows={h.exporters} id={(e) => `${e.exporter} ${e.domain}`} sort="name" height={480} />
              : <p class="unknown">No exporter has sent anything yet.</p>}
          </section>
          <Store h={h} />
          <section>
            <h2>Lost on the way into the store <small>by cause, since the collector runs</small></h2>
            {h.lost.length > 0 ? <Table name="lost" title="Lost records" columns={lost} rows={h.lost} id={(l) => `${l.stage} ${l.cause}`} sort="-count" height={320} /> : <p>Nothing was lost.</p>}
          </section>
        </>
      )}
    </Shown>
  )
}

export default {
  id: 'health', title: 'Health', order: 9, about: 'Who sends, what was lost by cause, and the state of the store.', filters: [], timeless: true, view: View,
} satisfies Screen
