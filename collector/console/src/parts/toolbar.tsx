// SPDX-License-Identifier: Apache-2.0

// The time, the period to compare with, and the filters: each is a setting of the address.
import { useRef, useState } from 'preact/hooks'
import { protocol } from '../format'
import { Field, numberUpTo, prefix } from './field'
import { useNarrow } from './width'
import { param, params, set } from '../route'
import { flowFilters, type Filter, type Screen } from '../screen'
import { instantText, nanoseconds, parseSpan, usualSpan } from '../time'
import { zone } from '../question'
import { reload } from '../ask'

const spans = ['5m', '15m', '1h', '6h', '24h', '7d', '30d']
const comparisons = [['', 'nothing'], ['previous', 'the time just before'], ['1h', 'an hour earlier'], ['24h', 'a day earlier'], ['7d', 'a week earlier']] as const

const fields: Record<Filter, { label: string; hint: string; size: number; numeric?: boolean }> = {
  source: { label: 'Source', hint: 'address or prefix', size: 20 },
  destination: { label: 'Destination', hint: 'address or prefix', size: 20 },
  destination_port: { label: 'Port', hint: 'any', size: 5, numeric: true },
  source_port: { label: 'Source port', hint: 'any', size: 5, numeric: true },
  next_header: { label: 'Protocol', hint: 'any', size: 4, numeric: true },
  namespace: { label: 'Namespace', hint: 'any', size: 5, numeric: true },
}

/** Filters that are there on demand. */
const rare: Filter[] = ['source_port', 'next_header', 'namespace']

export function Toolbar({ screen }: { screen: Screen }) {
  const [more, setMore] = useState(false), narrow = useNarrow(720)
  const all = flowFilters.filter((name) => screen.filters.includes(name))
  // Narrow windows have room for the answer only if the filters that are not set are folded.
  const folded = narrow ? all : rare
  const shown = all.filter((name) => more || !folded.includes(name) || param(name)), folds = all.filter((name) => folded.includes(name))
  const hidden = flowFilters.filter((name) => !screen.filters.includes(name) && param(name))
  return (
    <search class="toolbar">
      {!screen.timeless && <TimeRange />}
      {screen.compare && (
        <label class={`field${param('compare') ? ' set' : ''}`}>
          <span>Compare with</span>
          <select value={param('compare')} onChange={(event) => set({ compare: event.currentTarget.value })}>
            {comparisons.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
            {param('compare') && !comparisons.some(([value]) => value === param('compare')) && <option value={param('compare')}>{param('compare')} earlier</option>}
          </select>
        </label>
      )}
      {shown.map((name) => (
        <Field key={name} name={name} {...fields[name]} list={name === 'next_header' ? 'protocols' : name === 'destination_port' ? 'ports' : undefined}
          wrong={name === 'source' || name === 'destination' ? prefix : numberUpTo(name === 'next_header' ? 255 : 65535)} />
      ))}
      {shown.includes('next_header') && <datalist id="protocols">{[6, 17, 58, 132].map((n) => <option key={n} value={n}>{protocol(n)}</option>)}</datalist>}
      {shown.includes('destination_port') && (
        <datalist id="ports">{([[22, 'SSH'], [53, 'DNS'], [80, 'HTTP'], [123, 'NTP'], [179, 'BGP'], [443, 'HTTPS'], [853, 'DNS over TLS']] as const).map(([n, text]) => <option key={n} value={n}>{text}</option>)}</datalist>
      )}
      {folds.length > 0 && <button type="button" class="quiet" aria-expanded={more} onClick={() => setMore(!more)}>{more ? 'Fewer filters' : narrow ? 'Filters' : 'More filters'}</button>}
      {hidden.length > 0 && <p class="unused">{hidden.map((name) => fields[name].label).join(', ')}: not used by this screen</p>}
      <button type="button" class="quiet reload" onClick={reload} title="Ask again (r)">Reload</button>
    </search>
  )
}

function TimeRange() {
  const own = params.value.has('from') || params.value.has('until')
  const [open, setOpen] = useState(false)
  const since = own ? '' : param('since') || usualSpan
  return (
    <div class="times">
      <label class="field set">
        <span>Time</span>
        <select data-time value={own || open ? 'own' : since} onChange={(event) => {
          const value = event.currentTarget.value
          setOpen(value === 'own')
          if (value !== 'own') set({ since: value === usualSpan ? null : value, from: null, until: null })
        }}>
          {spans.map((span) => <option key={span} value={span}>last {span}</option>)}
          {since && !spans.includes(since) && <option value={since}>last {since}</option>}
          <option value="own">{own ? 'from – until' : 'from – until …'}</option>
        </select>
      </label>
      {(own || open) && <Bounds close={() => setOpen(false)} />}
    </div>
  )
}

/** The value of a field for date and time, in the zone that is shown. */
function fieldValue(text: string): string {
  const ns = nanoseconds(text)
  if (ns === null) return ''
  const ms = Number(ns / 1_000_000n)
  return new Date(zone() === 'utc' ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function readField(value: string): string {
  const ms = zone() === 'utc' ? Date.parse(`${value}Z`) : new Date(value).getTime()
  return Number.isNaN(ms) ? '' : instantText(BigInt(ms) * 1_000_000n)
}

function Bounds({ close }: { close: () => void }) {
  const [opened] = useState(Date.now) // not the time of each drawing: it would replace what is being written
  const until = param('until') || instantText(BigInt(Math.floor(opened / 60_000) * 60_000) * 1_000_000n)
  const untilNs = nanoseconds(until) ?? 0n
  const from = param('from') || instantText(untilNs - BigInt(Math.round((parseSpan(param('since') || usualSpan) ?? 3_600_000) * 1e6)))
  const first = useRef<HTMLInputElement>(null), second = useRef<HTMLInputElement>(null)
  const use = () => {
    const a = readField(first.current!.value), b = readField(second.current!.value)
    // The browser says what is missing; that the second is later, it does not know.
    second.current!.setCustomValidity(a && b && nanoseconds(a)! >= nanoseconds(b)! ? 'This must be later than the begin.' : '')
    if (!second.current!.reportValidity() || !a || !b) return
    set({ from: a, until: b, since: null })
    close()
  }
  return (
    <form class="bounds" onSubmit={(event) => { event.preventDefault(); use() }}>
      <label class="field"><span>From</span><input ref={first} type="datetime-local" step={1} required key={`${from}${zone()}`} defaultValue={fieldValue(from)} /></label>
      <label class="field"><span>Until</span><input ref={second} type="datetime-local" step={1} required key={`${until}${zone()}`} defaultValue={fieldValue(until)} onInput={(event) => event.currentTarget.setCustomValidity('')} /></label>
      <button type="submit">Show</button>
    </form>
  )
}
