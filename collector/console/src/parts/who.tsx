// SPDX-License-Identifier: Apache-2.0

// Who asks, where the collector has users, and the way out.
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { ask } from '../ask'
import { visible } from '../format'
import type { Caller } from '../types'
import { announce } from './announce'

/** Nothing is asked any more after it. */
export const loggedOut = signal(false)

async function logOut(): Promise<void> {
  try {
    const response = await fetch('/logout', { method: 'POST' })
    if (!response.ok) throw new Error(`the collector answered ${response.status}`)
    loggedOut.value = true
  } catch (reason) {
    announce(`You are still logged in: ${reason instanceof Error ? reason.message : String(reason)}`)
  }
}

export function Who() {
  const [who, setWho] = useState<Caller | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    ask<Caller>({ path: '/v1/session', parameters: {} }, stop.signal).then(setWho, () => undefined) // the answers below say what is wrong
    return () => stop.abort()
  }, [])
  if (!who?.user || loggedOut.value) return null
  return (
    <span class="who">
      <span title={who.part ? 'This role sees a part of the packets' : undefined}>{visible(who.user)}, {who.role}</span>
      {who.login && <button type="button" class="quiet" onClick={() => void logOut()}>Log out</button>}
    </span>
  )
}

export function LoggedOut() {
  return (
    <div class="nothing">
      <h1>You are logged out</h1>
      <p><button type="button" onClick={() => window.location.reload()}>Log in again</button></p>
    </div>
  )
}
