// SPDX-License-Identifier: Apache-2.0

// The address has all state: the path is the screen, the query its settings.
import { computed, signal } from '@preact/signals'

export type Changes = Record<string, string | number | boolean | null | undefined>

/** Settings that stay when the screen changes. */
export const shared = ['since', 'from', 'until', 'compare', 'zone', 'source', 'destination', 'source_port', 'destination_port', 'next_header', 'namespace']

/** A query string with changes; null, undefined, false and '' remove a setting. */
export function changed(search: string, changes: Changes): string {
  const params = new URLSearchParams(search)
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '' || value === false) params.delete(key)
    else params.set(key, String(value))
  }
  // Colons and slashes of prefixes and times may stand in a query (RFC 3986, section 3.4): readable links.
  const text = params.toString().replaceAll('%3A', ':').replaceAll('%2F', '/')
  return text === '' ? '' : `?${text}`
}

/** The part of a query that the next screen takes over. */
export function carried(search: string): string {
  const params = new URLSearchParams(search)
  return changed('', Object.fromEntries(shared.map((key) => [key, params.get(key)])))
}

const here = () => ({ path: window.location.pathname, search: window.location.search })
const at = signal(typeof window === 'undefined' ? { path: '/', search: '' } : here())

export const search = computed(() => at.value.search)
export const params = computed(() => new URLSearchParams(at.value.search))
/** The screen's name; '' for the first one. */
export const screenName = computed(() => at.value.path.replace(/^\/+|\/+$/g, ''))

/** A setting of the address. */
export const param = (name: string): string => params.value.get(name) ?? ''

/** The address of a screen: with what is shared between screens, and changes. */
export const screenHref = (id: string, changes: Changes = {}): string => `/${id}${changed(carried(search.value), changes)}`

/** The address of this screen with changes. */
export const href = (changes: Changes): string => at.value.path + changed(search.value, changes)

export function visit(address: string, replace = false): void {
  if (address === at.value.path + at.value.search) return
  const before = at.value.path
  if (replace) history.replaceState(null, '', address)
  else history.pushState(null, '', address)
  at.value = here()
  if (at.value.path !== before) window.scrollTo(0, 0) // another screen begins at its top
}

/** Changes settings of the address. */
export const set = (changes: Changes, replace = false): void => visit(href(changes), replace)

/** Follows links of the console without loading the page again. */
export function followLinks(): void {
  window.addEventListener('popstate', () => { at.value = here() })
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute('download') || link.origin !== window.location.origin) return
    if (link.pathname.startsWith('/v1/') || link.hash) return
    event.preventDefault()
    visit(link.pathname + link.search)
  })
}
