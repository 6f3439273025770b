// SPDX-License-Identifier: Apache-2.0

// The list of screens. A screen is a file in screens/ with a Screen as its default export; nothing else names it.
import type { Screen } from './screen'

const files = import.meta.glob<{ default: Screen }>('./screens/*.tsx', { eager: true })

export const screens: Screen[] = Object.values(files).map((file) => file.default).sort((a, b) => a.order - b.order)
