// SPDX-License-Identifier: Apache-2.0

import { useAnswer, type Question } from '../ask'
import { count, visible } from '../format'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { Choice } from '../parts/choice'
import { Field } from '../parts/field'
import { drawTable, saveTable, Table, type Column } from '../parts/table'
import { asked, zone } from '../question'
import { param, set } from '../route'
import type { Screen } from '../screen'
import { showTime } from '../time'
import type { Event, Events } from '../types'

/** What a collector finds; others come from nodes, and are asked for in the field. */
const usual = ['loss_began', 'loss_ended', 'segment_slow', 'segment_usual', 'held_long', 'held_usual', 'paths_moved', 'node_silent', 'node_heard', 'not_seen']

const words = (name: string): string => visible(name).replaceAll('_', ' ')

/** Colours repeat what the word says. */
const classes: Record<string, string | undefined> = { error: 'lost', warning: 'slow', info: 'soft' }

export const textOf = (e: Event): string => visible(e.cure ? `${e.text}; ${e.cure}` : e.text)

const columns: Column<Event>[] = [
  { key: 'time', title: 'Time', value: (e) => e.time, text: (e) => showTime(e.time, zone()), width: 156 },
  { key: 'event', title: 'Event', vital: true, about: 'Its name, or the code of a warning', value: (e) => e.event, text: (e) => words(e.event), width: 170 },
  { key: 'severity', title: 'Severity', value: (e) => e.severity, show: (e) => <span class={classes[e.severity]}>{visible(e.severity)}</span>, width: 90 },
  { key: 'subject', title: 'Subject', about: 'What it happened to', value: (e) => e.subject, width: 200, grows: true },
  { key: 'text', title: 'What happened', value: (e) => (e.cure ? `${e.text}; ${e.cure}` : e.text), width: 420, grows: true },
  { key: 'node', title: 'Found by', about: 'The node, or the host of the collector', value: (e) => e.node, width: 120 },
]

const rowOf = (e: Event): string => `${e.time} ${e.event} ${e.subject ?? ''} ${e.node ?? ''}`

/** The answer in a sentence. */
export function sentence(list: Event[], cut: boolean): string {
  const last = list[0], errors = list.filter((e) => e.severity === 'error').length
  const all = `${cut ? 'The latest ' : ''}${list.length === 1 && !cut ? 'One event' : `${count(list.length)} events`}`
  return `${all}${errors > 0 ? `, ${count(errors)} of them errors` : ''}${last ? `; the last: ${words(last.event)}` : ''}`
}

/** All that is known of one. */
function Opened({ of }: { of: Event }) {
  const facts = [...Object.entries(of.labels ?? {}), ...Object.entries(of.values ?? {}).map(([name, n]) => [name, String(n)] as const)]
  return (
    <section class="details" aria-label="The chosen event">
      <div class="part"><h2>{words(of.event)}</h2> <small>{showTime(of.time, zone(), 3)}{of.since && `, since ${showTime(of.since, zone(), 3)}`}{of.node && `, found by ${visible(of.node)}`}</small></div>
      <p>{textOf(of)}</p>
      {facts.length > 0 && <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{visible(name)}</dt><dd>{visible(value)}</dd></div>)}</dl>}
    </section>
  )
}

function View() {
  const name = param('event'), question: Question = { path: '/v1/events', parameters: { ...asked([]), event: name, node: param('node'), limit: 2000 } }
  const answer = useAnswer<Events>(question)
  const kinds = Object.fromEntries([['', 'all'], ...[...usual, ...(name && !usual.includes(name) ? [name] : [])].map((one) => [one, words(one)])]) as Record<string, string>
  return (
    <>
      <div class="choices">
        <Choice name="event" title="Events" of={kinds} usual="" />
        <Field name="node" label="Found by" hint="any" size={14} wrong={() => ''} />
      </div>
      <Shown of={answer} empty={(a) => a.events.length === 0} nothing="No event was found">
        {(a) => {
          const open = a.events.find((e) => rowOf(e) === param('open'))
          return (
            <>
              <div class="title">
                <h1>{sentence(a.events, a.cut !== undefined)}</h1>
                <Actions question={question} csv={() => saveTable('events', columns, a.events)} png={() => drawTable('events', columns, a.events)} />
              </div>
              <Table name="main" title="Events" columns={columns} rows={a.events} id={rowOf} opened={open && rowOf(open)} open={(e) => set({ open: rowOf(e) === param('open') ? null : rowOf(e) }, true)} height={open ? 320 : undefined} />
              {open && <Opened of={open} />}
            </>
          )
        }}
      </Shown>
    </>
  )
}

export default {
  id: 'events', title: 'Events', order: 8, about: 'What the collector found in what nodes sent, such as losses and slow segments, and its warnings.', filters: [], view: View,
} satisfies Screen
