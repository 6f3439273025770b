// SPDX-License-Identifier: Apache-2.0

// The states of an answer: it is awaited, it failed, it is empty, it is not whole.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { reload, type Answer, type Head } from '../ask'
import { visible } from '../format'
import { zone } from '../question'
import { href, param } from '../route'
import { flowFilters } from '../screen'
import { nanoseconds, showRange } from '../time'

interface Props<T> {
  of: Answer<T>
  /** Whether there is nothing to show. */
  empty?: (data: T) => boolean
  /** What is not there: "No packets …". */
  nothing?: ComponentChildren
  children: (data: T) => ComponentChildren
}

export function Shown<T extends Head>({ of, empty, nothing, children }: Props<T>) {
  const { data, error, loading } = of
  return (
    <div class="answer" aria-busy={loading}>
      <Waiting loading={loading} cancel={of.cancel} first={data === null} />
      {error && !loading && (
        <div class="notice bad" role="alert">
          <p>{visible(error)}</p>
          <button type="button" onClick={reload}>Ask again</button>
        </div>
      )}
      {data && <Wholeness of={data} />}
      {data && (empty?.(data) ? <Nothing head={data}>{nothing}</Nothing> : <div class={loading ? 'stale' : undefined}>{children(data)}</div>)}
    </div>
  )
}

/** A line that moves, and after a moment a way out. */
function Waiting({ loading, cancel, first }: { loading: boolean; cancel: () => void; first: boolean }) {
  const [long, setLong] = useState(false)
  useEffect(() => {
    setLong(false)
    if (!loading) return
    const later = setTimeout(() => setLong(true), 700)
    return () => clearTimeout(later)
  }, [loading])
  return (
    <div class="waiting" role="status">
      {loading && <span class="bar" aria-hidden="true" />}
      {loading && <span class={first && !long ? 'hidden' : ''}>{long ? 'The collector looks it up. ' : <span class="hidden">Loading</span>}</span>}
      {loading && long && <button type="button" onClick={cancel}>Cancel</button>}
    </div>
  )
}

/** What an answer lacks. */
export function Wholeness({ of }: { of: Head }) {
  return (
    <>
      {of.cut && <p class="notice" role="status"><b>Cut.</b> {visible(of.cut.text)}</p>}
      {(of.gaps ?? []).map((gap) => (
        <p class="notice" key={gap.from} role="status"><b>Gap</b> {showRange(gap.from, gap.until, zone())}: {visible(gap.reason)}. What is missing there is not known.</p>
      ))}
    </>
  )
}

/** No data: a fact, with what could be asked instead. It is never a zero. */
function Nothing({ head, children }: { head: Head; children?: ComponentChildren }) {
  const a = head.from ? nanoseconds(head.from) : null, b = head.until ? nanoseconds(head.until) : null
  const filtered = flowFilters.some((name) => param(name) !== '')
  const day = a !== null && b !== null && b - a >= 86_400_000_000_000n
  return (
    <div class="nothing">
      <h1 class="big">{children ?? 'No data'}</h1>
      {head.from && head.until && <p>{showRange(head.from, head.until, zone())} {zone() === 'utc' ? 'UTC' : 'local time'}. That nothing is known does not mean that all is well.</p>}
      <p>
        {!day && <a href={href({ since: '24h', from: null, until: null })}>Look at 24 hours</a>}
        {filtered && <>{' '}<a href={href(Object.fromEntries(flowFilters.map((name) => [name, null])))}>Remove the filters</a></>}
      </p>
    </div>
  )
}
