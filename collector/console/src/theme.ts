// SPDX-License-Identifier: Apache-2.0

// Preferences of the person, not of what is looked at: they are in the browser, not in the address.
import { computed, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null // the browser keeps nothing
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value)
  } catch { /* the browser keeps nothing */ }
}

const known = (text: string | null): Theme => (text === 'light' || text === 'dark' ? text : 'system')

export const theme = signal<Theme>(known(typeof localStorage === 'undefined' ? null : stored('theme')))
const prefersDark = typeof matchMedia === 'undefined' ? null : matchMedia('(prefers-color-scheme: dark)')
const systemDark = signal(prefersDark?.matches ?? false)
prefersDark?.addEventListener('change', (e) => { systemDark.value = e.matches })
/** The colours that are in force, by which drawings on a canvas are made anew. */
export const dark = computed(() => theme.value === 'dark' || (theme.value === 'system' && systemDark.value))

/** Single keys as shortcuts, which WCAG 2.1.4 wants to be switchable. */
export const shortcuts = signal(typeof localStorage === 'undefined' || stored('shortcuts') !== 'off')

export function applyTheme(): void {
  if (theme.value === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme.value
}

export function setTheme(value: Theme): void {
  theme.value = value
  keep('theme', value)
  applyTheme()
}

export function setShortcuts(on: boolean): void {
  shortcuts.value = on
  keep('shortcuts', on ? 'on' : 'off')
}
