// SPDX-License-Identifier: Apache-2.0

import { render } from 'preact'
import { App } from './app'
import { followLinks } from './route'
import { applyTheme } from './theme'

applyTheme()
followLinks()
render(<App />, document.body)
