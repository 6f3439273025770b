// SPDX-License-Identifier: Apache-2.0

// What the toolbar says, as parameters of the API.
import type { Parameters } from './ask'
import { params } from './route'
import type { Filter } from './screen'
import { rangeOf, type Zone } from './time'

/** The range and the filters of the address. */
export function asked(filters: Filter[]): Parameters {
  const given: Parameters = { ...rangeOf(params.value) }
  for (const name of filters) given[name] = params.value.get(name)
  return given
}

export const zone = (): Zone => (params.value.get('zone') === 'local' ? 'local' : 'utc')
