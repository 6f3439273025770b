// SPDX-License-Identifier: Apache-2.0

import { useMemo } from 'preact/hooks'
import { useAnswer, type Question } from '../ask'
import { count, duration, endpoint, nodeName, protocol } from '../format'
import { Details } from '../packets/details'
import { fate } from '../packets/waterfall'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { Choice } from '../parts/choice'
import { Delay } from '../parts/delay'
import { Field, numberUpTo } from '../parts/field'
import { Passing, passing } from '../parts/passing'
import { drawTable, saveTable, Table, type Column } from '../parts/table'
import { asked, zone } from '../question'
import { param, set } from '../route'
import { flowFilters, type Screen } from '../screen'
import { parseSpan, showTime } from '../time'
import type { Packet, Packets } from '../types'

/** What makes a packet one: its numbers, or, in a trace, its time and path. */
const idOf = (p: Packet): string => `${p.time} ${p.flow_id ?? ''} ${p.sequence ?? ''} ${p.path}`

const columns: Column<Packet>[] = [
  { key: 'time', title: 'Time', about: 'When it was at the first node that reported a time', value: (p) => p.time, text: (p) => showTime(p.time, zone(), 6), width: 218 },
  { key: 'source', title: 'Source', value: (p) => endpoint(p.source_address, p.source_port), width: 230 },
  { key: 'destination', title: 'Destination', value: (p) => endpoint(p.destination_address, p.destination_port), width: 230 },
  { key: 'protocol', title: 'Protocol', value: (p) => protocol(p.next_header), width: 82 },
  { key: 'flow', title: 'Flow', about: 'Flow-ID of the option', value: (p) => p.flow_id, number: true, width: 108 },
  { key: 'sequence', title: 'Number', about: 'Sequence Number of the option', value: (p) => p.sequence, number: true, width: 82 },
  { key: 'path', title: 'Path', value: (p) => p.nodes.map((n) => nodeName(n)).join(' → '), width: 220, grows: true },
  { key: 'fate', title: 'Fate', value: (p) => p.verdict, show: (p) => <span title={fate(p)} class={p.verdict === 'lost' ? 'lost' : p.reason === 'complete' ? 'soft' : 'slow'}>{p.verdict === 'lost' ? 'lost' : p.reason === 'complete' ? 'arrived' : 'incomplete'}</span>, width: 86, vital: true },
  { key: 'delay', title: 'Delay', about: 'From the first node to the last, by the clocks of both', value: (p) => p.delay_ns, text: (p) => duration(p.delay_ns), show: (p) => <Delay ns={p.delay_ns} />, number: true, width: 90, vital: true },
]

const states = { any: 'all', incomplete: 'incomplete', lost: 'lost' }

const number = numberUpTo(0xffffffff)
const span = (text: string) => (parseSpan(text) === null ? 'want a span, such as 250us, 2ms or 1s' : '')

function Headline({ of }: { of: Packets }) {
  const lost = of.packets.filter((p) => p.verdict === 'lost').length, incomplete = of.packets.filter((p) => p.reason !== 'complete').length - lost
  const slowest = of.packets.reduce<Packet | undefined>((best, p) => (p.delay_ns !== undefined && (best?.delay_ns === undefined || p.delay_ns > best.delay_ns) ? p : best), undefined)
  return (
    <>
      <h1>{of.cut ? `The latest ${count(of.packets.length)} packets` : of.packets.length === 1 ? 'One packet' : `${count(of.packets.length)} packets`}{lost > 0 && <>, <span class="lost">{count(lost)} lost</span></>}{incomplete > 0 && `, ${count(incomplete)} incomplete`}</h1>
      <p class="sub">{slowest ? <>The longest took <b>{duration(slowest.delay_ns)}</b>. </> : 'No delay from end to end is known. '}Open one to see where it was when.</p>
    </>
  )
}

function View() {
  const state = param('state') || 'any', limit = param('limit') || '500'
  const question: Question = {
    path: '/v1/packets',
    parameters: { ...asked(flowFilters), ...passing(), flow_id: param('flow_id'), sequence: param('sequence'), min_delay: param('min_delay'), incomplete: state === 'incomplete', lost: state === 'lost', limit },
  }
  const answer = useAnswer<Packets>(question)
  const list = answer.data?.packets
  const open = useMemo(() => list?.find((p) => idOf(p) === param('packet')) ?? (list?.length === 1 ? list[0] : undefined), [list, param('packet')])
  // The command for one packet: its numbers, and a time that has it.
  const one: Question | null = open?.flow_id === undefined || open.sequence === undefined ? question : { path: '/v1/packets', parameters: { ...asked([]), flow_id: open.flow_id, sequence: open.sequence } }
  return (
    <>
      <div class="choices">
        <Choice name="state" title="Packets" of={states} usual="any" />
        <Field name="min_delay" label="Delay at least" hint="2ms" size={8} wrong={span} with={{ packet: null }} />
        <Field name="flow_id" label="Flow" hint="any" size={8} numeric wrong={number} with={{ packet: null }} />
        <Field name="sequence" label="Number" hint="any" size={8} numeric wrong={number} with={{ packet: null }} />
        <Choice name="limit" title="At most" of={{ 100: '100', 500: '500', 2000: '2 000', 10000: '10 000' }} usual="500" />
      </div>
      <Passing />
      <Shown of={answer} empty={(a) => a.packets.length === 0} nothing="No such packets">
        {(a) => (
          <>
            <div class="title">
              <Headline of={a} />
              <Actions question={question} csv={() => saveTable('packets', columns, a.packets)} png={() => drawTable('packets', columns, a.packets)} />
            </div>
            <Table name="main" title="Packets" columns={columns} rows={a.packets} id={idOf} opened={open && idOf(open)} open={(p) => set({ packet: idOf(p) === param('packet') ? null : idOf(p) }, true)} height={open ? 270 : 620}
              mark={(p) => (p.verdict === 'lost' ? 'is-lost' : '')} />
            {open && <Details of={open} question={one} />}
          </>
        )}
      </Shown>
    </>
  )
}

export default {
  id: 'packets', title: 'Packets', order: 6, about: 'Single packets, by addresses, ports, flow, delay or fate; one as a waterfall of its times.', filters: flowFilters, view: View,
} satisfies Screen
