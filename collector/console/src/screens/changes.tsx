// SPDX-License-Identifier: Apache-2.0

import { useMemo, useRef } from 'preact/hooks'
import { useAnswer, type Question } from '../ask'
import { groups, histogram, meanDelay, others, rowOf, words, type Group, type Row } from '../changes/group'
import { count, difference, duration, nodeName, share } from '../format'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { Chart } from '../parts/chart'
import { Choice } from '../parts/choice'
import { saveTable, Table, type Column } from '../parts/table'
import { savePNG } from '../export'
import { asked, zone } from '../question'
import { param, screenHref, set } from '../route'
import { flowFilters, type Screen } from '../screen'
import { nanoseconds, parseSpan, showClock, showTime, spanText } from '../time'
import type { Changes, Share } from '../types'

const windows = { '10s': '10 s', '1m': '1 min', '5m': '5 min', '15m': '15 min', '1h': '1 h' }
const least = { 0.1: '10%', 0.25: '25%', 0.5: '50%', 0.9: '90%' }

const columns: Column<Row>[] = [
  { key: 'time', title: 'Time', about: 'Begin of the window in which the paths are others', value: (r) => r.change.time, text: (r) => showTime(r.change.time, zone()), width: 166 },
  { key: 'source', title: 'Source', value: (r) => r.change.source, width: 150 },
  { key: 'destination', title: 'Destination', value: (r) => r.change.destination, width: 160, vital: true },
  { key: 'moved', title: 'Moved', about: 'Share of the packets that take another path', value: (r) => r.change.moved, text: (r) => share(r.change.moved), number: true, width: 74 },
  { key: 'was', title: 'From', value: (r) => words(r.was), show: (r) => r.was && <Route of={r.was} than={r.change.became} more={r.change.was.length - 1} />, width: 200, grows: true },
  { key: 'became', title: 'To', value: (r) => words(r.became), show: (r) => r.became && <Route of={r.became} than={r.change.was} more={r.change.became.length - 1} />, width: 200, grows: true },
  { key: 'before', title: 'Delay before', about: 'Mean from the first node to the last', value: (r) => r.before, text: (r) => duration(r.before), number: true, width: 118 },
  { key: 'after', title: 'after', value: (r) => r.after, text: (r) => duration(r.after), number: true, width: 84 },
  { key: 'ratio', title: 'Change', value: (r) => (r.before && r.after !== undefined ? r.after / r.before : undefined), text: (r) => difference(r.after, r.before), show: (r) => <Difference of={r} />, number: true, width: 82, vital: true },
]

/** A path; its nodes that the other side does not have are bold. */
function Route({ of, than, more }: { of: Share; than: Share[]; more: number }) {
  const fresh = others(of, than)
  return <>{of.nodes.map((n, i) => <span key={i}>{i > 0 && <i class="arrow"> → </i>}{fresh.has(nodeName(n)) ? <b>{nodeName(n)}</b> : nodeName(n)}</span>)}{more > 0 && <span class="soft"> and {more} more</span>}</>
}

function Difference({ of }: { of: Pick<Row, 'before' | 'after'> }) {
  const slower = of.before !== undefined && of.after !== undefined && of.before > 0 && of.after > 1.2 * of.before
  return <span class={slower ? 'slow' : 'soft'}>{difference(of.after, of.before)}</span>
}

function Headline({ of, rows, cut }: { of: Group[]; rows: Row[]; cut: boolean }) {
  const pairs = new Set(rows.map((r) => `${r.change.source} ${r.change.destination}`)).size, top = of[0]!
  return (
    <>
      <h1>{cut ? 'At least ' : ''}{pairs === 1 ? 'One pair of addresses' : `${count(pairs)} pairs of addresses`} moved to another path{rows.length > pairs ? `, ${count(rows.length)} times` : ''}</h1>
      <p class="sub">
        {top.rows.length > 1 ? <>Most together: <b>{count(top.rows.length)}</b> at <b>{showTime(top.time, zone())}</b></> : <>The last at <b>{showTime(rows[0]!.change.time, zone())}</b></>}
        {top.rows.length > 1 && top.before !== undefined && top.after !== undefined && <>, delay {duration(top.before)} → {duration(top.after)} <Difference of={top} /></>}
      </p>
    </>
  )
}

/** Changes that happened together. */
function Together({ of }: { of: Group[] }) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Changes that happened together">
      <table class="hops">
        <thead><tr><th scope="col">Time</th><th scope="col" class="number">Pairs</th><th scope="col">From</th><th scope="col">To</th><th scope="col" class="number">Delay before</th><th scope="col" class="number">after</th><th scope="col" class="number">Change</th></tr></thead>
        <tbody>
          {of.slice(0, 6).map((g) => (
            <tr key={g.key}>
              <th scope="row" class="when">{showTime(g.time, zone())}</th><td class="number">{count(g.rows.length)}</td>
              <td>{g.was && <Route of={g.was} than={g.became ? [g.became] : []} more={0} />}</td><td>{g.became && <Route of={g.became} than={g.was ? [g.was] : []} more={0} />}</td>
              <td class="number">{duration(g.before)}</td><td class="number">{duration(g.after)}</td><td class="number"><Difference of={g} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Side({ title, time, list, than }: { title: string; time: string; list: Share[]; than: Share[] }) {
  return (
    <div class="side">
      <h3>{title} <small>{showClock(time, zone())}, mean delay {duration(meanDelay(list))}</small></h3>
      <ul class="shares">
        {list.map((s) => (
          <li key={s.path}>
            <span class="number">{share(s.share)}</span>
            <span class="bar-track" aria-hidden="true"><span class="bar-of" style={{ width: `${s.share * 100}%` }} /></span>
            <span class="way"><Route of={s} than={than} more={0} /></span>
            <span class="number soft">{duration(s.delay_mean_ns)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

function Details({ of, window }: { of: Row; window: string }) {
  const c = of.change, long = parseSpan(window) ?? 60_000, begin = nanoseconds(c.time), before = nanoseconds(c.before)
  const pair = { source: c.source, destination: c.destination }
  const until = begin === null ? c.time : new Date(Number(begin / 1_000_000n) + long).toISOString()
  const apart = begin !== null && before !== null ? spanText(Math.max(1000, Number(begin - before) / 1e6)) : window
  return (
    <section class="details" aria-label="The chosen change">
      <div class="part"><h2>{c.source ?? 'unknown'} → {c.destination ?? 'unknown'}</h2> <small>{share(c.moved)} of the packets moved</small></div>
      <div class="sides"><Side title="Before" time={c.before} list={c.was} than={c.became} /><Side title="After" time={c.time} list={c.became} than={c.was} /></div>
      <p>
        <a href={screenHref('paths', { ...pair, since: null, from: c.time, until, compare: apart })}>Both windows, node by node</a>{' · '}
        <a href={screenHref('packets', { ...pair, since: null, from: c.before, until })}>The packets</a>
      </p>
    </section>
  )
}

const steps = 120

function View() {
  const window = param('window') || '1m', moved = param('moved') || '0.5'
  const question: Question = { path: '/v1/changes', parameters: { ...asked(flowFilters), window, moved, limit: 2000 } }
  const answer = useAnswer<Changes>(question)
  const canvas = useRef<HTMLCanvasElement>(null)
  const a = answer.data
  const rows = useMemo(() => (a?.changes ?? []).map(rowOf), [a])
  const together = useMemo(() => groups(rows), [rows])
  const course = useMemo(() => {
    if (!a) return null
    const h = histogram(rows, a.from, a.until, steps)
    return { data: [h.counts.map((_, i) => h.begin + i * h.step), h.counts] as [number[], number[]], range: [h.begin, h.begin + steps * h.step] as [number, number] }
  }, [a, rows])
  const open = rows.find((r) => r.id === param('change'))
  return (
    <>
      <div class="choices">
        <Choice name="window" title="Shares over" of={windows} usual="1m" />
        <Choice name="moved" title="At least moved" of={least} usual="0.5" />
        <p class="soft">Packets that are spread over equal paths do not move as long as the shares stay.</p>
      </div>
      <Shown of={answer} empty={(d) => d.changes.length === 0} nothing="No change of paths was seen">
        {(d) => (
          <>
            <div class="title">
              <Headline of={together} rows={rows} cut={d.cut !== undefined} />
              <Actions question={question} csv={() => saveTable('changes', columns, rows)} png={() => (canvas.current ? savePNG('changes', canvas.current) : undefined)} />
            </div>
            <Chart label={`Pairs that moved, over the time: ${count(rows.length)} changes; the tables have each`} data={course!.data} range={course!.range} value={(n) => (Number.isInteger(n) ? count(n) : '')} canvas={canvas} series={[{ label: 'pairs', colour: 'one', bars: true }]} />
            {together.length > 0 && together[0]!.rows.length > 1 && (
              <section><h2>Together <small>pairs that moved at the same time between the same paths</small></h2><Together of={together} /></section>
            )}
            <section>
              <h2>Pairs <small>nodes that only one side has are bold; open one to see all its paths</small></h2>
              <Table name="main" title="Changes" columns={columns} rows={rows} id={(r) => r.id} opened={open?.id} open={(r) => set({ change: r.id === open?.id ? null : r.id }, true)} height={open ? 260 : 430} />
            </section>
            {open && <Details of={open} window={window} />}
          </>
        )}
      </Shown>
    </>
  )
}

export default {
  id: 'changes', title: 'Changes', order: 2, about: 'Which pairs of addresses moved from which paths to which, when, and the delay before and after.', filters: flowFilters, view: View,
} satisfies Screen
