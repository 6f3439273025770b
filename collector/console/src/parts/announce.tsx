// SPDX-License-Identifier: Apache-2.0

// Short messages at the lower edge, which screen readers also say.
import { signal } from '@preact/signals'

const message = signal('')
let timer: ReturnType<typeof setTimeout> | undefined

export function announce(text: string, shown = 4000): void {
  message.value = text
  clearTimeout(timer)
  timer = setTimeout(() => { message.value = '' }, shown)
}

export function Announcements() {
  return <div class={`toast${message.value ? ' on' : ''}`} role="status" aria-live="polite">{message.value}</div>
}
