// SPDX-License-Identifier: Apache-2.0

// One of a few words, as a setting of the address.
import { param, set } from '../route'

interface Props {
  /** Of the setting. */
  name: string
  title: string
  /** What is shown, by the setting's values. */
  of: Record<string, string>
  /** The value that the address does not have. */
  usual: string
}

export function Choice({ name, title, of, usual }: Props) {
  const now = param(name) || usual
  return (
    <label class="field">
      <span>{title}</span>
      <select value={now} onChange={(event) => set({ [name]: event.currentTarget.value === usual ? null : event.currentTarget.value })}>
        {Object.entries(of).map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  )
}
