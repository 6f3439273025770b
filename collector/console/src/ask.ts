// SPDX-License-Identifier: Apache-2.0

// Questions to the collector's API.
import { useEffect, useRef, useState } from 'preact/hooks'
import { signal } from '@preact/signals'
import type { Cut, Gap } from './types'

export type Parameters = Record<string, string | number | boolean | null | undefined>

/** A question: what to ask, and the words of the command that asks the same. */
export interface Question { path: string; parameters: Parameters }

export interface Head { from?: string; until?: string; gaps?: Gap[]; cut?: Cut }

/** Why there is no answer, in a sentence. */
export interface Failure {
  text: string
  /** Of HTTP; 0: nobody answered; -1: neither. */
  status: number
  /** The reason may go away by itself: it is asked again every few seconds. */
  again: boolean
}

export interface Answer<T> {
  question: Question | null
  /** The last answer: while another one is awaited, that to the question before. After a failure, only one to the same question. */
  data: T | null
  failure: Failure | null
  loading: boolean
  /** When the data came, in milliseconds since 1970. */
  at: number
  cancel: () => void
}

/** The address of a question. */
export function address(q: Question): string {
  const list = new URLSearchParams()
  for (const [key, value] of Object.entries(q.parameters)) {
    if (value !== null && value !== undefined && value !== '' && value !== false) list.set(key, String(value))
  }
  const text = list.toString()
  return q.path + (text ? `?${text}` : '')
}

/** Reads JSON; node_id may have 56 bits, of which a number would lose some. */
export function exact(text: string): unknown {
  return JSON.parse(text, function (this: unknown, key: string, value: unknown, ...rest: unknown[]) {
    const source = (rest[0] as { source?: string } | undefined)?.source
    return key === 'node_id' && typeof value === 'number' && !Number.isSafeInteger(value) && source ? source : value
  } as (key: string, value: unknown) => unknown)
}

/** An answer that is an error. */
class Refused extends Error {
  constructor(text: string, readonly status: number) { super(text) }
}

/** Why a response is no answer. */
async function refusal(response: Response): Promise<Refused> {
  let text = `the collector answered ${response.status}`
  try {
    const body = exact(await response.text()) as { error?: string } | null
    if (typeof body?.error === 'string') text = body.error
  } catch {
    text += ' without JSON' // a proxy, perhaps
  }
  return new Refused(text, response.status)
}

/** Asks once. */
export async function ask<T>(question: Question, stop?: AbortSignal): Promise<T> {
  const response = await fetch(address(question), { signal: stop, headers: { Accept: 'application/json' }, cache: 'no-store' })
  if (!response.ok) throw await refusal(response)
  const text = await response.text()
  try {
    return exact(text) as T
  } catch {
    throw new Refused('the collector answered without JSON', response.status)
  }
}

/** Why something cannot be had that was asked for without an answer in JSON; null: it can. */
export async function reasonOf(where: string, stop: AbortSignal): Promise<Failure | null> {
  try {
    const response = await fetch(where, { signal: stop, cache: 'no-store' })
    if (!response.ok) return failureOf(await refusal(response))
    void response.body?.cancel()
    return null
  } catch (reason) {
    return failureOf(reason)
  }
}

/** What waits for a moment when nothing else does: too many questions, a proxy without its collector, a network that is away. */
const passing = new Set([0, 429, 502, 503])

export function failureOf(reason: unknown): Failure {
  if (reason instanceof Refused) return { text: reason.message, status: reason.status, again: passing.has(reason.status) }
  if (reason instanceof TypeError) return { text: 'The collector cannot be reached.', status: 0, again: true } // what fetch throws
  return { text: reason instanceof Error ? reason.message : String(reason), status: -1, again: false }
}

const cancelled: Failure = { text: 'The question was cancelled.', status: -1, again: false }

/** How long it takes until something is asked again that failed for a passing reason, in milliseconds. */
export const patience = 5000

/** Counts how often everything is asked again. */
export const reloads = signal(0)
export const reload = (): void => { reloads.value++ }

interface State<T> { asked: string; answered: string; data: T | null; failure: Failure | null; loading: boolean; at: number }

/** The answer to a question, which is asked again when it changes; null asks nothing. An older one is cancelled, and never replaces a newer one. */
export function useAnswer<T>(question: Question | null): Answer<T> {
  const key = question ? address(question) : ''
  const again = reloads.value
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<State<T>>({ asked: '', answered: '', data: null, failure: null, loading: false, at: 0 })
  const running = useRef<AbortController | null>(null)
  useEffect(() => {
    if (!question) {
      setState({ asked: '', answered: '', data: null, failure: null, loading: false, at: 0 })
      return
    }
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    running.current = stop
    const replaced = () => stop.signal.aborted && stop.signal.reason !== 'user'
    // A failure stays while the same is asked again: what comes and goes cannot be read.
    setState((s) => ({ ...s, asked: key, loading: true, failure: s.asked === key ? s.failure : null }))
    ask<T>(question, stop.signal).then(
      (data) => { if (!replaced()) setState({ asked: key, answered: key, data, failure: null, loading: false, at: Date.now() }) },
      (reason: unknown) => {
        if (replaced()) return
        const failure = stop.signal.aborted ? cancelled : failureOf(reason)
        setState((s) => ({ ...s, asked: key, data: s.answered === key ? s.data : null, failure, loading: false }))
        if (failure.again) timer = setTimeout(() => setTurn((n) => n + 1), patience)
      },
    )
    return () => {
      clearTimeout(timer)
      stop.abort('another question')
    }
  }, [key, again, turn])
  return { question, data: state.data, failure: state.failure, loading: state.loading || state.asked !== key, at: state.at, cancel: () => running.current?.abort('user') }
}
