// SPDX-License-Identifier: Apache-2.0

// The time, the period to compare with, and the filters: each is a setting of the address.
import { useEffect, useRef, useState } from 'preact/hooks'
import { protocol } from '../format'
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

/** A text that becomes a setting when it is finished: Enter, or leaving the field. */
function Field({ name, list, invalid }: { name: Filter; list?: string; invalid?: (text: string) => string }) {
  const field = fields[name], now = param(name)
  const [text, setText] = useState(now)
  useEffect(() => setText(now), [now])
  const wrong = invalid?.(text) ?? ''
  const finish = () => { if (!wrong && text.trim() !== now) set({ [name]: text.trim() }) }
  return (
    <label class={`field${now ? ' set' : ''}`}>
      <span>{field.label}</span>
      <input value={text} size={field.size} placeholder={field.hint} inputMode={field.numeric ? 'numeric' : undefined} spellcheck={false} autocomplete="off" list={list} aria-invalid={wrong !== ''} title={wrong || undefined}
        data-filter={name} onInput={(event) => setText(event.currentTarget.value)} onBlur={finish} onKeyDown={(event) => {
          if (event.key === 'Enter') finish()
          if (event.key === 'Escape') setText(now)
        }} />
      {now && <button type="button" class="clear" aria-label={`Remove ${field.label}`} onClick={() => set({ [name]: null })}>×</button>}
    </label>
  )
}

const numberUpTo = (most: number) => (text: string) => (text === '' || (/^\d+$/.test(text) && Number(text) <= most) ? '' : `a number from 0 to ${most}`)
const prefix = (text: string) => (text === '' || /^[\da-fA-F:.]+(\/\d{1,3})?$/.test(text.trim()) ? '' : 'an address or a prefix, such as 2001:db8:1::/48')

export function Toolbar({ screen }: { screen: Screen }) {
  const [more, setMore] = useState(false)
  const all = flowFilters.filter((name) => screen.filters.includes(name))
  const shown = all.filter((name) => more || !rare.includes(name) || param(name))
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
        <Field key={name} name={name} list={name === 'next_header' ? 'protocols' : name === 'destination_port' ? 'ports' : undefined}
          invalid={name === 'source' || name === 'destination' ? prefix : numberUpTo(name === 'next_header' ? 255 : 65535)} />
      ))}
      {shown.includes('next_header') && <datalist id="protocols">{[6, 17, 58, 132].map((n) => <option key={n} value={n}>{protocol(n)}</option>)}</datalist>}
      {shown.includes('destination_port') && (
        <datalist id="ports">{([[22, 'SSH'], [53, 'DNS'], [80, 'HTTP'], [123, 'NTP'], [179, 'BGP'], [443, 'HTTPS'], [853, 'DNS over TLS']] as const).map(([n, text]) => <option key={n} value={n}>{text}</option>)}</datalist>
      )}
      {all.some((name) => rare.includes(name)) && (
        <button type="button" class="quiet" aria-expanded={more} onClick={() => setMore(!more)}>{more ? 'Fewer filters' : 'More filters'}</button>
      )}
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
        <select data-time value={own ? 'own' : since} onChange={(event) => {
          const value = event.currentTarget.value
          if (value === 'own') setOpen(true)
          else set({ since: value === usualSpan ? null : value, from: null, until: null })
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
  const until = param('until') || instantText(BigInt(Math.floor(Date.now() / 60_000) * 60_000) * 1_000_000n)
  const untilNs = nanoseconds(until) ?? 0n
  const from = param('from') || instantText(untilNs - BigInt(Math.round((parseSpan(param('since') || usualSpan) ?? 3_600_000) * 1e6)))
  const first = useRef<HTMLInputElement>(null), second = useRef<HTMLInputElement>(null)
  const use = () => {
    const a = readField(first.current!.value), b = readField(second.current!.value)
    if (a && b) {
      set({ from: a, until: b, since: null })
      close()
    }
  }
  return (
    <form class="bounds" onSubmit={(event) => { event.preventDefault(); use() }}>
      <label class="field"><span>From</span><input ref={first} type="datetime-local" step={1} key={`${from}${zone()}`} defaultValue={fieldValue(from)} /></label>
      <label class="field"><span>Until</span><input ref={second} type="datetime-local" step={1} key={`${until}${zone()}`} defaultValue={fieldValue(until)} /></label>
      <button type="submit">Show</button>
    </form>
  )
}
