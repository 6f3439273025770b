// SPDX-License-Identifier: Apache-2.0

// The list of screens. A screen is a file in screens/ with a Screen as its default export; nothing else names it.
import type { ComponentType } from 'preact'

/** The filters of the toolbar, by their parameters of the API. */
export type Filter = 'source' | 'destination' | 'source_port' | 'destination_port' | 'next_header' | 'namespace'

export const flowFilters: Filter[] = ['source', 'destination', 'destination_port', 'source_port', 'next_header', 'namespace']

export interface Screen {
  /** Its path in the address. */
  id: string
  title: string
  /** Its place in the navigation. */
  order: number
  /** What it answers, in a sentence. */
  about: string
  /** Which filters its question takes. */
  filters: Filter[]
  /** Whether it has a second period to compare with. */
  compare?: boolean
  /** Whether it is about a time at all. */
  timeless?: boolean
  view: ComponentType
}

const files = import.meta.glob<{ default: Screen }>('./screens/*.tsx', { eager: true })

export const screens: Screen[] = Object.values(files).map((file) => file.default).sort((a, b) => a.order - b.order)
