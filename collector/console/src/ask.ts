// SPDX-License-Identifier: Apache-2.0

// Questions to the collector's API.
import { useEffect, useRef, useState } from 'preact/hooks'
import { signal } from '@preact/signals'
import type { Cut, Gap } from './types'

export type Parameters = Record<string, string | number | boolean | null | undefined>

/** A question: what to ask, and the words of the command that asks the same. */
export interface Question { path: string; parameters: Parameters }

export interface Head { from?: string; until?: string; gaps?: Gap[]; cut?: Cut }

export interface Answer<T> {
  question: Question | null
  data: T | null
  /** What went wrong, in a sentence. */
  error: string
  loading: boolean
  /** Milliseconds that the answer took. */
  took: number
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

/** Asks once. */
export async function ask<T>(question: Question, stop?: AbortSignal): Promise<T> {
  const response = await fetch(address(question), { signal: stop, headers: { Accept: 'application/json' }, cache: 'no-store' })
  const text = await response.text()
  let body: unknown
  try {
    body = exact(text)
  } catch {
    throw new Error(`the collector answered ${response.status} without JSON`)
  }
  if (!response.ok) throw new Error((body as { error?: string }).error ?? `the collector answered ${response.status}`)
  return body as T
}

/** Counts how often everything is asked again. */
export const reloads = signal(0)
export const reload = (): void => { reloads.value++ }

const idle = { data: null, error: '', loading: false, took: 0 }

/** The answer to a question, which is asked again when it changes; null asks nothing. An older one is cancelled. */
export function useAnswer<T>(question: Question | null): Answer<T> {
  const key = question ? address(question) : ''
  const again = reloads.value
  const [state, setState] = useState<{ data: T | null; error: string; loading: boolean; took: number }>({ ...idle, loading: question !== null })
  const running = useRef<AbortController | null>(null)
  useEffect(() => {
    if (!question) {
      setState(idle)
      return
    }
    const stop = new AbortController(), begin = performance.now()
    running.current = stop
    setState((s) => ({ ...s, loading: true, error: '' }))
    ask<T>(question, stop.signal).then(
      (data) => setState({ data, error: '', loading: false, took: performance.now() - begin }),
      (reason: unknown) => {
        if (stop.signal.aborted && stop.signal.reason !== 'user') return
        const text = stop.signal.aborted ? 'The question was cancelled.' : reason instanceof TypeError ? 'The collector cannot be reached.' : reason instanceof Error ? reason.message : String(reason)
        setState({ data: null, error: text, loading: false, took: performance.now() - begin })
      },
    )
    return () => stop.abort('another question')
  }, [key, again])
  return { question, ...state, cancel: () => running.current?.abort('user') }
}
