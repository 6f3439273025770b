// SPDX-License-Identifier: Apache-2.0

// Does with the console what operators and networks do: keys alone, slow answers, errors, a collector that goes away,
// sessions that end, long names. states.mjs < plan > report, both in JSON: of each check, what was wrong.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { beyond, launch, patience, settled, usual } from './page.mjs'

const plan = JSON.parse(readFileSync(0, 'utf8'))
const screens = ['paths', 'changes', 'segments', 'grid', 'loss', 'packets', 'live', 'events', 'health']
const at = (screen, more = '') => `${plan.address}/${screen}?${plan.period}${more}`
const text = (page) => page.evaluate(() => document.querySelector('main').innerText.replace(/\s+/g, ' '))
const heading = (page) => page.locator('main h1').first().innerText()

const filter = (page, name) => page.locator(`[data-filter=${name}]`)

/** Waits until the main part has a text, and returns all of it. */
async function says(page, wanted) {
  await page.waitForFunction((t) => document.querySelector('main')?.innerText.replace(/\s+/g, ' ').includes(t), wanted)
    .catch(async () => assert.fail(`no “${wanted}” in: ${await text(page)}`))
  return text(page)
}

/** Answers requests to a path by a function; the function that is returned ends it. */
async function answering(page, path, by) {
  const which = (url) => url.pathname === path
  await page.route(which, by)
  return () => page.unroute(which)
}

const failing = (status, body) => (route) => route.fulfill({ status, contentType: 'application/json', body: typeof body === 'string' ? body : JSON.stringify(body) })

/** Changes answers of the collector. */
const changing = (change) => async (route) => {
  const response = await route.fetch()
  await route.fulfill({ response, json: change(await response.json()) })
}

/** Tab through the page, until it begins anew: what had the focus, could not be seen, or was never reached. */
async function walk(page) {
  const wrong = [], count = await page.evaluate(() => {
    const all = [...document.querySelectorAll('a[href], button, select, input, [tabindex]')]
    window.wanted = new Set(all.filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true }) && !e.closest('dialog:not([open])')))
    window.reached = new Set()
    return window.wanted.size
  })
  for (let i = 0; i <= 8 * count; i++) { // a field for a time has eight parts
    await page.keyboard.press('Tab')
    const step = await page.evaluate(() => {
      const e = document.activeElement
      if (e && e === window.before) return {} // a part of a field
      window.before = e
      if (!e || e === document.body || window.reached.has(e)) return { over: window.reached.size > 0 }
      window.reached.add(e)
      const box = e.getBoundingClientRect()
      const ring = (x) => x && getComputedStyle(x).outlineStyle !== 'none' && parseFloat(getComputedStyle(x).outlineWidth) >= 1
      const seen = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth
      return { name: `${e.tagName} ${e.getAttribute('aria-label') ?? e.textContent.slice(0, 40)}`, seen, ring: ring(e) || ring(e.parentElement) }
    })
    if (step.over) break
    if (step.name && !step.seen) wrong.push(`${step.name} has the focus and is not in the window`)
    if (step.name && !step.ring) wrong.push(`the focus cannot be seen on ${step.name}`)
    if (i === 8 * count) wrong.push('Tab does not come around')
  }
  const missed = await page.evaluate(() => [...window.wanted].filter((e) => e.isConnected && !window.reached.has(e)).map((e) => `${e.tagName} ${e.getAttribute('aria-label') ?? e.textContent.slice(0, 40)}`))
  return [...wrong, ...missed.map((name) => `Tab does not reach ${name}`)]
}

/** A name that a node may send: long, without a place to break, with marks and what turns the direction. */
const longName = `<b>${'W'.repeat(120)}‮${'漢'.repeat(60)}&amp;\u0000`
const naming = (value) => JSON.parse(JSON.stringify(value, (key, v) => (typeof v === 'string' && ['node', 'name', 'from_node', 'to_node', 'flow', 'text', 'reason', 'cause', 'directory', 'event', 'verdict', 'state'].includes(key) ? longName : v)))

const checks = {
  async 'keys reach everything on every screen'(page) {
    const wrong = []
    for (const screen of screens) {
      await page.goto(at(screen, screen === 'loss' ? '&row=5+segment+1+2' : ''))
      await settled(page)
      if (screen === 'live') await says(page, 'packets in the last minute')
      wrong.push(...(await walk(page)).map((one) => `${screen}: ${one}`))
    }
    assert.deepEqual(wrong, [])
  },

  async 'single keys do what the help says'(page) {
    await page.goto(at('paths'))
    await settled(page)
    const focused = () => page.evaluate(() => document.activeElement?.dataset.filter ?? ('time' in (document.activeElement?.dataset ?? {}) ? 'time' : document.activeElement?.getAttribute('role') ?? document.activeElement?.tagName))
    for (const [key, wanted] of [['/', 'source'], ['Escape', 'source'], ['Shift+Tab', 'SELECT'], ['Shift+Tab', 'BUTTON']]) {
      await page.keyboard.press(key)
      assert.equal(await focused(), wanted, key)
    }
    await page.evaluate(() => document.activeElement.blur())
    await page.keyboard.press('t')
    assert.equal(await focused(), 'time')
    await page.evaluate(() => document.activeElement.blur())
    await page.keyboard.press('j')
    assert.equal(await focused(), 'grid')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await says(page, 'The chosen path')
    const second = await page.evaluate(() => document.querySelectorAll('[role=grid] tbody tr')[1].getAttribute('aria-selected'))
    assert.equal(second, 'true')
    await page.keyboard.press('Space') // the same row again: it closes
    await says(page, 'The busiest path')
    await page.keyboard.press('c')
    await page.waitForFunction(() => document.querySelector('.toast')?.textContent.startsWith('Copied'))
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await page.locator('[data-copy-command]').getAttribute('data-copy-command'))
    await page.keyboard.press('?')
    assert.equal(await page.evaluate(() => document.querySelector('dialog').open && document.querySelector('dialog').contains(document.activeElement)), true)
    const keys = await page.locator('dialog kbd').allInnerTexts()
    for (const key of ['1', '9', 't', '/', 'j', 'c', 'r']) assert.ok(keys.includes(key), `the help has no ${key}`)
    await page.keyboard.press('3') // no shortcut in a dialog
    assert.ok(page.url().includes('/paths'))
    await page.keyboard.press('Escape')
    assert.equal(await page.evaluate(() => document.querySelector('dialog').open), false)
    assert.equal(await focused(), 'grid', 'after the help, the focus is where it was')
  },

  async 'the address is the state: back, forward, reload'(page) {
    await page.goto(at('paths'))
    await settled(page)
    await filter(page, 'destination_port').fill('no')
    await page.getByText('Not used: want a number from 0 to 65535').waitFor()
    await filter(page, 'destination').fill('2001:db8::/16')
    await page.keyboard.press('Enter')
    await page.waitForURL(/destination=2001:db8::\/16/)
    await settled(page)
    await page.evaluate(() => window.scrollTo(0, 500))
    await page.getByRole('link', { name: 'Segments' }).click()
    await settled(page)
    assert.equal(await page.evaluate(() => window.scrollY), 0, 'a screen begins at its top')
    await page.getByLabel('The worst by').selectOption('loss')
    await says(page, 'Most is lost after')
    await page.goBack()
    await says(page, 'is the slowest')
    assert.equal(await page.getByLabel('The worst by').inputValue(), 'link')
    await page.goBack()
    await says(page, 'packets on')
    assert.equal(await filter(page, 'destination').inputValue(), '2001:db8::/16')
    await page.goForward()
    await page.goForward()
    await says(page, 'Most is lost after')
    const address = page.url()
    await page.reload()
    await says(page, 'Most is lost after')
    assert.equal(page.url(), address)
    assert.equal(await page.getByLabel('The worst by').inputValue(), 'loss')
  },

  async 'a slow answer says so, and can be cancelled'(page) {
    let release
    const held = new Promise((done) => { release = done })
    const end = await answering(page, '/v1/segments', async (route) => { await held; await route.continue().catch(() => {}) })
    await page.goto(at('segments'))
    await says(page, 'The collector looks it up.')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await says(page, 'The question was cancelled.')
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'keys go on in the answer')
    release()
    await end()
    await page.getByRole('button', { name: 'Ask again' }).click()
    await says(page, 'is the slowest')
    assert.equal(await page.locator('.notice.bad').count(), 0)
  },

  async 'an older answer never replaces a newer one'(page) {
    await page.goto(at('segments'))
    await settled(page)
    const held = []
    const end = await answering(page, '/v1/segments', (route) => {
      if (route.request().url().includes('order=held')) held.push(route)
      else void route.continue()
    })
    await page.getByLabel('The worst by').selectOption('held')
    await page.waitForFunction(() => document.querySelector('[aria-busy=true]'))
    await page.getByLabel('The worst by').selectOption('loss')
    await says(page, 'Most is lost after')
    for (const route of held) await route.continue().catch(() => {}) // the browser gave it up
    await page.getByRole('button', { name: 'Reload' }).click()
    await settled(page)
    assert.match(await heading(page), /^Most is lost after/)
    assert.equal(held.length, 1)
    await end()
  },

  async 'a collector that goes away comes back by itself'(page) {
    await page.clock.install()
    await page.goto(`${plan.address}/health`)
    await says(page, 'exporters send')
    const end = await answering(page, '/v1/health', (route) => route.abort('connectionrefused'))
    await page.getByRole('button', { name: 'Reload' }).click()
    const gone = await says(page, 'The collector cannot be reached. It is asked again every few seconds.')
    assert.match(gone, /Below is the answer of .* what happened since then is not known/)
    assert.match(gone, /exporters send/)
    await end()
    await page.clock.fastForward(5500)
    await page.waitForFunction(() => !document.querySelector('main .notice.bad'))
    await page.goto(at('grid'))
    await settled(page)
    await answering(page, '/v1/grid', failing(502, '<html>bad gateway</html>'))
    await page.keyboard.press('r')
    await says(page, 'the collector answered 502 without JSON')
  },

  async 'an answer about the last hour says when it is old'(page) {
    await page.clock.install()
    await answering(page, '/v1/segments', async (route) => route.fulfill({ response: await route.fetch({ url: `${plan.address}/v1/segments?${plan.period}` }) }))
    await page.goto(`${plan.address}/segments?since=1h`)
    await says(page, 'is the slowest')
    await page.clock.fastForward('03:00:00')
    await says(page, 'asked 3.00 h ago; Reload asks again')
  },

  async 'a session that ended asks for a login, and keeps the address'(page) {
    await page.goto(at('packets', '&state=lost'))
    await settled(page)
    const end = await answering(page, '/v1/packets', failing(401, { kind: 'error', error: 'who are you?' }))
    await page.keyboard.press('r')
    await says(page, 'You are not logged in any more')
    await end()
    await page.getByRole('button', { name: 'Log in again' }).click()
    await says(page, 'Open one to see where it was when')
    assert.ok(page.url().includes('state=lost'))
  },

  async 'who asks is said, and can log out'(page) {
    await page.goto(at('paths'))
    await settled(page)
    assert.equal(await page.locator('.who').count(), 0, 'without users, nobody is named')
    await answering(page, '/v1/session', (route) => route.fulfill({ json: { user: 'ann\u202e', role: 'viewer', part: false, login: false } }))
    await page.reload()
    await page.getByText('ann\\u202e, viewer').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Log out' }).count(), 0, 'a password has no session')
    await page.unroute(() => true)
    await answering(page, '/v1/session', (route) => route.fulfill({ json: { user: 'ann', role: 'admin', part: false, login: true } }))
    const asked = []
    let code = 503
    await answering(page, '/logout', (route) => { asked.push(route.request().method()); void route.fulfill({ status: code }) })
    await page.reload()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.waitForFunction(() => document.querySelector('.toast')?.textContent === 'You are still logged in: the collector answered 503')
    code = 204
    await page.getByRole('button', { name: 'Log out' }).click()
    await says(page, 'You are logged out')
    assert.deepEqual(asked, ['POST', 'POST'])
    assert.equal(await page.locator('main table').count(), 0, 'nothing is left of the answers')
    await page.getByRole('button', { name: 'Log in again' }).click()
    await says(page, 'packets on')
  },

  async 'what is not whole says so, and an error says why'(page) {
    const end = await answering(page, '/v1/grid', changing((a) => ({ ...a, cut: { reason: 'limit', text: 'there are more; <b>ask about a shorter time</b>' }, gaps: [{ from: a.from, until: a.until, reason: 'the file is damaged' }] })))
    await page.goto(at('grid'))
    const whole = await says(page, 'Cut. there are more; <b>ask about a shorter time</b>')
    assert.match(whole, /Gap 2026-11-21 11:50:00 – 12:00:00: the file is damaged. What is missing there is not known./)
    await end()
    await page.goto(at('paths', '&source=1.2.3.4/99'))
    await says(page, 'source')
    assert.equal(await page.locator('.notice.bad').count(), 1)
    assert.equal(await page.locator('main table').count(), 0, 'nothing of another question')
  },

  async 'the live stream says when it is not connected'(page) {
    const end = await answering(page, '/v1/live', failing(503, { kind: 'error', error: 'there are 64 streams already' }))
    await page.clock.install()
    await page.goto(`${plan.address}/live?rate=1000`)
    const refused = await says(page, 'Not connected: what passes is not known')
    await says(page, 'there are 64 streams already It is asked again')
    assert.doesNotMatch(refused, /No packets/)
    await end()
    await page.clock.fastForward(5500)
    await says(page, 'packets in the last minute')
    assert.equal(await page.locator('.notice.bad').count(), 0)
    await page.getByRole('button', { name: 'Pause' }).click()
    await says(page, 'in the minute before')
  },

  async 'a fault of one screen leaves the others'(page) {
    await answering(page, '/v1/paths', changing((a) => ({ ...a, paths: [{}] })))
    await page.goto(at('paths'))
    await says(page, 'This screen has a fault')
    await page.keyboard.press('3')
    await says(page, 'is the slowest')
  },

  async 'long names stay in their places, also at 360 px'(page) {
    const wrong = []
    await page.setViewportSize({ width: 360, height: 640 })
    await page.route((url) => url.pathname.startsWith('/v1/') && url.pathname !== '/v1/live', changing(naming))
    for (const screen of screens.filter((s) => s !== 'live')) {
      await page.goto(at(screen, screen === 'loss' ? '&row=5+segment+1+2' : ''))
      await settled(page)
      wrong.push(...(await page.evaluate(beyond)).map((one) => `${screen}: ${one}`))
      const raw = await page.evaluate(() => /[\u202e\u0000]/.test(document.body.innerHTML))
      if (raw) wrong.push(`${screen}: what turns the direction is there as it came`)
    }
    assert.deepEqual(wrong, [])
  },
}

const browser = await launch()
try {
  const report = []
  for (const [name, check] of Object.entries(checks)) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...usual, permissions: ['clipboard-read', 'clipboard-write'] })
    context.setDefaultTimeout(patience / 2)
    const page = await context.newPage(), wrong = [], begin = Date.now()
    page.on('dialog', (dialog) => { wrong.push(`dialog: ${dialog.message()}`); void dialog.dismiss() })
    if (!name.startsWith('a fault')) page.on('pageerror', (error) => wrong.push(`error: ${error.message}`))
    await check(page).catch((error) => wrong.push(error.stack ?? String(error)))
    await context.close()
    console.error(`${name}: ${Date.now() - begin} ms`)
    report.push({ name, wrong })
  }
  process.stdout.write(JSON.stringify(report))
} finally {
  await browser.close()
}
