// SPDX-License-Identifier: Apache-2.0

// What a screen is. It knows no screen, so that screens can take from here; registry.ts lists them.
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
