// SPDX-License-Identifier: Apache-2.0

// A text that becomes a setting of the address when it is finished: by Enter, or when the field is left.
import { useEffect, useState } from 'preact/hooks'
import { param, set, type Changes } from '../route'

interface Props {
  /** Of the setting. */
  name: string
  label: string
  hint: string
  size: number
  numeric?: boolean
  list?: string
  /** What is wrong with a text; '' if nothing is. */
  wrong: (text: string) => string
  /** What changes with it. */
  with?: Changes
}

export function Field({ name, label, hint, size, numeric, list, wrong, with: others }: Props) {
  const now = param(name)
  const [text, setText] = useState(now)
  useEffect(() => setText(now), [now])
  const why = text.trim() === '' ? '' : wrong(text.trim())
  const finish = () => { if (!why && text.trim() !== now) set({ ...others, [name]: text.trim() }) }
  return (
    <label class={`field${now ? ' set' : ''}`}>
      <span>{label}</span>
      <input value={text} size={size} placeholder={hint} inputMode={numeric ? 'numeric' : undefined} spellcheck={false} autocomplete="off" list={list} aria-invalid={why !== ''} aria-describedby={why ? `why-${name}` : undefined}
        data-filter={name} onInput={(event) => setText(event.currentTarget.value)} onBlur={finish} onKeyDown={(event) => {
          if (event.key === 'Enter') finish()
          if (event.key === 'Escape') setText(now)
        }} />
      {now && <button type="button" class="clear" aria-label={`Remove ${label}`} onClick={(event) => {
        event.currentTarget.parentElement?.querySelector('input')?.focus() // the button goes away
        set({ ...others, [name]: null })
      }}>×</button>}
      {why && <span class="why" id={`why-${name}`} role="alert">Not used: {why}</span>}
    </label>
  )
}

export const numberUpTo = (most: number) => (text: string): string => (/^\d+$/.test(text) && Number(text) <= most ? '' : `want a number from 0 to ${most}`)

/** Roughly an address or a prefix: the collector knows exactly. */
export const prefix = (text: string): string => (/^[\da-fA-F:.]+(\/\d{1,3})?$/.test(text) ? '' : 'want an address or a prefix, such as 2001:db8:1::/48')
