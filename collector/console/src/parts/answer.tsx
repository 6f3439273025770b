// SPDX-License-Identifier: Apache-2.0

// The states of an answer: it is awaited, it failed, it is empty, it is not whole.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { reload, type Answer, type Failure, type Head } from '../ask'
import { duration, visible } from '../format'
import { zone } from '../question'
import { href, param } from '../route'
import { flowFilters } from '../screen'
import { instantText, nanoseconds, showRange, showTime } from '../time'

interface Props<T> {
  of: Answer<T>
  /** Whether there is nothing to show. */
  empty?: (data: T) => boolean
  /** What is not there: "No packets …". */
  nothing?: ComponentChildren
  /** It is a part of a screen that says the time already. */
  part?: boolean
  children: (data: T) => ComponentChildren
}

export function Shown<T extends Head>({ of, empty, nothing, part, children }: Props<T>) {
  const { data, failure, loading } = of
  const what = failure ? 'kept' : loading ? 'stale' : undefined
  return (
    <div class="answer" aria-busy={loading}>
      <Waiting of={of} />
      {failure && <Failed of={failure} kept={data && of.at} />}
      {data && <Wholeness of={data} />}
      {data && (empty?.(data) ? <Nothing head={data}>{nothing}</Nothing> : <div class={what}>{!part && <Period head={data} at={of.at} />}{children(data)}</div>)}
    </div>
  )
}

/** Keys go on in the answer when the button that has them disappears. */
const stay = () => document.getElementById('main')?.focus({ preventScroll: true })

/** A line that moves, and after a moment a way out. */
function Waiting({ of: { loading, data, cancel } }: { of: Answer<unknown> }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    setSeconds(0)
    if (!loading) return
    const begin = performance.now()
    const timer = setInterval(() => setSeconds((performance.now() - begin) / 1000), 500)
    return () => clearInterval(timer)
  }, [loading])
  const long = loading && seconds > 0.6
  return (
    <div class={`waiting${long ? ' long' : ''}`}>
      {loading && <span class="bar" aria-hidden="true" />}
      <span role="status" class={long ? '' : 'hidden'}>{long ? `The collector looks it up.${data ? ' Below is still the answer before.' : ''}` : loading ? 'Loading' : ''}</span>
      {long && <span aria-hidden="true" class="seconds">{Math.floor(seconds)} s</span>}
      {long && <button type="button" onClick={() => { stay(); cancel() }}>Cancel</button>}
    </div>
  )
}

/** Why there is no answer, and what can be done. kept: when the answer came that is still shown. */
export function Failed({ of, kept, again = reload }: { of: Failure; kept?: number | null; again?: () => void }) {
  const ended = of.status === 401
  return (
    <div class="notice bad" role="alert">
      <div>
        <p>{ended ? 'You are not logged in any more: a session ends after its time, and when the collector starts anew. After the login, this page comes back as it is.' : visible(of.text)}{of.again && ' It is asked again every few seconds.'}</p>
        {kept ? <p>Below is the answer of {showTime(instantText(BigInt(kept) * 1_000_000n), zone())}: what happened since then is not known.</p> : null}
      </div>
      {ended ? <button type="button" onClick={() => window.location.reload()}>Log in again</button> : <button type="button" onClick={() => { stay(); again() }}>Ask again</button>}
    </div>
  )
}

/** An answer about a time before now is old after so many milliseconds. */
const fresh = 120_000

/** The time that an answer is about; and how old it is, if it is about a time before now: a page may stay open for hours. */
function Period({ head, at }: { head: Head; at: number }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 15_000)
    return () => clearInterval(timer)
  }, [at])
  if (!head.from || !head.until) return null
  const moves = param('until') === '', age = now - at
  return (
    <p class="period">
      {showRange(head.from, head.until, zone())} {zone() === 'utc' ? 'UTC' : 'local time'}
      {moves && age > fresh && <b class="slow"> · asked {duration(age * 1e6)} ago; Reload asks again</b>}
    </p>
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
