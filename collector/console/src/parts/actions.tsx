// SPDX-License-Identifier: Apache-2.0

// What can be done with an answer: copy the command that asks the same, save it.
import { useState } from 'preact/hooks'
import { command, curl } from '../command'
import type { Question } from '../ask'
import { announce } from './announce'

interface Props {
  question: Question | null
  csv?: () => void
  png?: () => void | Promise<void>
}

/** Copies without the clipboard's API, which browsers give only to https and to this machine. */
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea'), focused = document.activeElement
  area.value = text
  area.className = 'hidden'
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return done
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    if (!copyBySelection(text)) {
      announce(`The browser does not allow to copy: ${text}`, 30_000)
      return
    }
  }
  announce(`Copied: ${text}`)
}

export function Actions({ question, csv, png }: Props) {
  const [busy, setBusy] = useState(false)
  const text = question && command(question, window.location.origin)
  return (
    <div class="actions">
      {text && <button type="button" class="quiet" data-copy-command={text} title={text} onClick={() => void copy(text)}>Copy as command</button>}
      {question && <button type="button" class="quiet" title={curl(question, window.location.origin)} onClick={() => void copy(curl(question, window.location.origin))}>curl</button>}
      {csv && <button type="button" class="quiet" title="Save the rows as CSV" onClick={csv}>CSV</button>}
      {png && (
        <button type="button" class="quiet" title="Save the drawing as PNG" disabled={busy} onClick={() => {
          setBusy(true)
          Promise.resolve(png()).catch((reason: unknown) => announce(`No picture: ${String(reason)}`)).finally(() => setBusy(false))
        }}>PNG</button>
      )}
    </div>
  )
}
