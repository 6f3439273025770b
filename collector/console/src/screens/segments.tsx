// SPDX-License-Identifier: Apache-2.0

import { useAnswer, type Question } from '../ask'
import { count, difference, duration, interfaceName, nodeName, share } from '../format'
import { saveShown } from '../export'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { Choice } from '../parts/choice'
import { Negatives } from '../parts/delay'
import { lostOf, Losses, lossUnknown } from '../parts/losses'
import { Over, type Line } from '../parts/over'
import { Spark } from '../parts/spark'
import { saveTable, Table, type Column } from '../parts/table'
import '../measures.css'
import { asked } from '../question'
import { param, screenHref, set } from '../route'
import { flowFilters, type Screen } from '../screen'
import { inSteps, stepsOf } from '../steps'
import type { Delays, Segment, Segments } from '../types'

const orders = { link: 'delay between nodes', held: 'time in the node', loss: 'loss', packets: 'packets' }
const baselines = { '': 'nothing', '1h': 'the hour before', '24h': 'the day before', '7d': 'the week before' }

/** From where to where; what is lost ends without a next node. */
export function segmentName(s: Segment): string {
  const from = s.egress ? `${nodeName(s.from)} ${interfaceName(s.egress)}` : nodeName(s.from)
  if (!s.to) return s.egress ? `${from} → not seen further` : `${from}, the last node`
  return `${from} → ${nodeName(s.to)}${s.ingress ? ` ${interfaceName(s.ingress)}` : ''}`
}

const lossOf = (s: Pick<Segment, 'packets' | 'lost'>) => (s.packets > 0 ? s.lost / s.packets : null)

/** How much more than before: as a ratio, for sorting. */
const more = (now: Delays | undefined, before: Delays | undefined) => (now && before && before.p99_ns > 0 ? now.p99_ns / before.p99_ns : null)

const worse = (ratio: number | null) => ratio !== null && ratio >= 1.5

function delays(key: 'link' | 'held', title: string, about: string, compared: boolean, vital: boolean): Column<Segment>[] {
  const list: Column<Segment>[] = (['p50_ns', 'p95_ns', 'p99_ns'] as const).map((p) => ({
    key: `${key}_${p}`, title: `${title} ${p.slice(0, 3)}`, about: `${about}: ${p === 'p50_ns' ? 'median' : `${p.slice(1, 3)}th percentile`}`,
    value: (s) => s[key]?.[p], text: (s) => duration(s[key]?.[p]), number: true, width: 88, vital: vital && p === 'p99_ns',
    show: (s) => (s[key] ? <span class={p === 'p99_ns' && worse(more(s[key], s.baseline?.[key])) ? 'slow' : undefined}>{duration(s[key][p])}</span> : <span class="unknown">–</span>),
  }))
  if (compared) {
    list.push({
      key: `${key}_more`, title: `${title} p99 to before`, about: `${about}: the 99th percentile, compared with that of the time before`, value: (s) => more(s[key], s.baseline?.[key]),
      text: (s) => difference(s[key]?.p99_ns, s.baseline?.[key]?.p99_ns) || '–', number: true, width: 156, vital,
      show: (s) => {
        const text = difference(s[key]?.p99_ns, s.baseline?.[key]?.p99_ns)
        if (!text) return <span class="unknown" title={s[key] ? 'The time before has no data of it.' : undefined}>{s[key] ? 'no data' : '–'}</span>
        return <span class={worse(more(s[key], s.baseline?.[key])) ? 'slow' : 'soft'} title={`before: ${duration(s.baseline?.[key]?.p99_ns)}`}>{text}</span>
      },
    })
  }
  return list
}

function columnsOf(a: Segments, order: string, compared: boolean): Column<Segment>[] {
  const steps = stepsOf(a), of = order === 'held' ? 'held' : 'link'
  return [
    { key: 'segment', title: 'Segment', value: segmentName, width: 260, grows: true },
    { key: 'hops', title: 'Hops', about: 'By hop limits: more than 1 if nodes between did not report', value: (s) => s.hops, text: (s) => (s.hops ? count(s.hops) : '–'), number: true, width: 60 },
    { key: 'packets', title: 'Packets', value: (s) => s.packets, text: (s) => count(s.packets), number: true, width: 90, vital: order === 'packets' },
    {
      key: 'lost', title: 'Lost after', about: 'Packets of which it is known that they were lost after the node', value: lostOf, text: (s) => count(lostOf(s)), number: true, width: 90, vital: order === 'loss',
      show: (s) => <Losses of={s} soft={s.to !== undefined} title={share(lossOf(s))} />,
    },
    ...delays('link', 'Link', 'Time from this node to the next, by the clocks of both', compared, order === 'link'),
    ...(steps.length > 1 ? [{
      key: 'course', title: of === 'held' ? 'Course of held' : 'Course of link', about: 'The course of its 99th percentile in the time that is asked about', value: () => null, width: 134,
      show: (s: Segment) => <Spark about={`99th percentile, ${segmentName(s)}`} values={inSteps(steps, s.series).map((p) => p?.[of]?.p99_ns ?? null)} />,
    } satisfies Column<Segment>] : []),
    ...delays('held', 'Held', 'How long the first node held packets', compared, order === 'held'),
    { key: 'negative', title: 'Clocks', about: 'Packets whose time between the nodes is negative, because the clocks differ', value: (s) => s.link_negative ?? 0, width: 110, show: (s) => <Negatives of={s.link_negative} all={s.packets} /> },
  ]
}

/** One segment over the time, and what passed it. */
function Opened({ of, a }: { of: Segment; a: Segments }) {
  const steps = stepsOf(a), series = of.series ?? [], way = { segment: of.segment, way: segmentName(of) }
  const lines = (key: 'link' | 'held'): Line[] => (['p50_ns', 'p99_ns'] as const).map((p) => ({ name: p.slice(0, 3), points: series.map((s) => ({ time: s.time, ns: s[key]?.[p] })) }))
  return (
    <section class="details" aria-label="The chosen segment">
      <div class="part">
        <h2>{segmentName(of)}</h2>
        <small>drag over a chart to see a part of the time · <a href={screenHref('paths', way)}>Paths of it</a> · <a href={screenHref('packets', way)}>Packets of it</a></small>
      </div>
      {of.to && <Over title="Link" file="segment-link" steps={steps} step={a.step_ns ?? 0} lines={lines('link')} />}
      <Over title="Held" file="segment-held" steps={steps} step={a.step_ns ?? 0} lines={lines('held')} />
    </section>
  )
}

/** The answer in a sentence. */
export function sentence(list: Segment[], order: string): string {
  const first = list[0]
  if (!first) return 'No segments'
  const name = segmentName(first)
  switch (order) {
    case 'held': return first.held ? `${nodeName(first.from)} holds packets longest: p99 ${duration(first.held.p99_ns)}` : 'No node said how long it held packets'
    case 'loss': return first.lost > 0 ? `Most is lost after ${nodeName(first.from)}${first.egress ? ` ${interfaceName(first.egress)}` : ''}: ${count(first.lost)} packets` : list.some((s) => s.loss_known) ? 'No packet is known to be lost' : 'Of no packet is it known whether it was lost'
    case 'packets': return `${name} has the most packets: ${count(first.packets)}`
    default: return first.link ? `${name} is the slowest: p99 ${duration(first.link.p99_ns)}` : 'Of no segment is the delay known'
  }
}

function View() {
  const order = param('order') || 'link', baseline = param('baseline')
  const question: Question = { path: '/v1/segments', parameters: { ...asked(flowFilters), order, baseline, buckets: 60, limit: 500 } }
  const answer = useAnswer<Segments>(question)
  return (
    <>
    <div class="choices">
      <Choice name="order" title="The worst by" of={orders} usual="link" />
      <Choice name="baseline" title="Compared with" of={baselines} usual="" />
    </div>
    <Shown of={answer} empty={(a) => a.segments.length === 0} nothing="No segments: no node reported a packet">
      {(a) => {
        const columns = columnsOf(a, order, baseline !== '')
        const open = a.segments.find((s) => s.segment === param('open'))
        const files = columns.filter((c) => c.key !== 'course')
        return (
          <>
            <div class="title">
              <h1>{sentence(a.segments, order)}</h1>
              <Actions question={question} csv={() => saveTable('segments', files, a.segments)} png={() => saveShown('segments', '.table')} />
            </div>
            {a.segments.some((s) => !s.loss_known) && <p class="caption">{lossUnknown}</p>}
            <Table name="main" title="Segments" columns={columns} rows={a.segments} id={(s) => s.segment} mark={(s) => (s.lost > 0 ? 'loses' : '')} opened={open?.segment} open={(s) => set({ open: s.segment === open?.segment ? null : s.segment }, true)} height={open ? 260 : undefined} />
            {open && <Opened of={open} a={a} />}
          </>
        )
      }}
    </Shown>
    </>
  )
}

export default {
  id: 'segments', title: 'Segments', order: 3, about: 'The ways from one node to the next: which are the slowest, where packets are lost, and what they were before.', filters: flowFilters, view: View,
} satisfies Screen
