// SPDX-License-Identifier: Apache-2.0

// Opens the console in a browser and says what is there: browser.mjs < plan > report, both in JSON. A plan has the
// address of the console, the paths to open, and what to do there; the report has what a person would see, and what
// was wrong in any way: errors, violations of the Content-Security-Policy, findings of axe. It judges nothing else.
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { beyond, launch, patience, settled, usual } from './page.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const plan = JSON.parse(readFileSync(0, 'utf8'))

const browser = await launch()
try {
  const report = []
  for (const visit of plan.visits) report.push(await look(visit))
  process.stdout.write(JSON.stringify(report))
} finally {
  await browser.close()
}

/** Opens one path. */
async function look(visit) {
  const wide = { width: visit.width ?? 1280, height: visit.height ?? 800 }
  const context = await browser.newContext({ viewport: wide, ...usual })
  context.setDefaultTimeout(patience)
  const wrong = []
  const page = await context.newPage()
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => { wrong.push(`dialog: ${dialog.message()}`); void dialog.dismiss() })
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) wrong.push(`console: ${message.text()}`) })
  page.on('request', (request) => { if (!request.url().startsWith(plan.address) && !request.url().startsWith('blob:')) wrong.push(`request of another origin: ${request.url()}`) })
  await page.addInitScript(() => {
    window.violations = []
    document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`))
  })
  try {
    return { path: visit.path, wrong, ...await visited(page, visit, wrong) }
  } catch (error) { // with what was seen before
    wrong.push(`${error.message} in ${await page.evaluate(() => document.body.innerText.slice(0, 2000)).catch(() => 'no page')}`)
    return { path: visit.path, wrong }
  } finally {
    await context.close()
  }
}

/** Does what the plan says, and reads the page. */
async function visited(page, visit, wrong) {
  await page.goto(plan.address + visit.path)
  await settled(page)
  if (visit.await) await page.waitForFunction((text) => document.querySelector('main')?.innerText.includes(text), visit.await)
  if (visit.wait) await page.waitForTimeout(visit.wait)
  for (const keys of visit.press ?? []) await page.keyboard.press(keys)
  await settled(page)
  const seen = await page.evaluate(read)
  for (const text of await page.evaluate(undrawn)) wrong.push(`a drawing does not show its text: ${text}`)
  if (visit.paint) seen.paint = await paint(page, visit)
  if (visit.csv) seen.csv = await csv(page)
  if (visit.png) seen.png = await png(page, visit.png)
  if (visit.picture) await picture(page, visit)
  if (visit.darkPicture) await picture(page, { picture: visit.darkPicture, dark: true })
  if (visit.check) {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme })
      for (const finding of await findings(page, colorScheme === 'dark')) wrong.push(`axe, ${colorScheme}: ${finding}`)
    }
    await page.setViewportSize({ width: 360, height: 640 })
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
    for (const finding of await page.evaluate(beyond)) wrong.push(`at 360 px: ${finding}`)
    if (visit.narrow) await picture(page, { picture: visit.narrow })
  }
  for (const violation of await page.evaluate(() => window.violations)) wrong.push(`Content-Security-Policy: ${violation}`)
  return seen
}

/** What a person sees, in the page. */
function read() {
  const main = document.querySelector('main')
  const text = (element) => element.innerText.replace(/\s+/g, ' ').trim()
  return {
    address: location.pathname + location.search,
    title: document.title,
    heading: [...main.querySelectorAll('h1')].map(text).join(' '),
    text: text(main),
    command: main.querySelector('[data-copy-command]')?.dataset.copyCommand ?? '',
    request: [...main.querySelectorAll('button')].find((b) => text(b) === 'curl')?.title ?? '',
    focus: document.activeElement?.getAttribute('aria-label') ?? '',
    tables: [...main.querySelectorAll('table')].map((table) => ({
      name: table.getAttribute('aria-label') ?? table.caption?.innerText ?? '',
      head: [...table.querySelectorAll('thead th')].map(text),
      rows: [...table.querySelectorAll('tbody tr:not([aria-hidden])')].map((row) => [...row.querySelectorAll('td, th')].map(text)),
    })),
  }
}

/** Texts of drawings that have no place, in the page. */
function undrawn() {
  const texts = [...document.querySelectorAll('main svg text')]
  return texts.filter((e) => e.textContent.trim() !== '' && e.getBoundingClientRect().width === 0).map((e) => e.textContent).slice(0, 3)
}

/** How long a browser that has nothing takes until it shows something, in milliseconds: the quickest of three times. */
async function paint(page, visit) {
  const times = []
  for (let i = 0; i < 3; i++) {
    const context = await browser.newContext() // with a cache of its own
    const fresh = await context.newPage()
    await fresh.goto(plan.address + visit.path)
    await settled(fresh)
    await fresh.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0)
    times.push(await fresh.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime))
    await context.close()
  }
  return Math.min(...times)
}

/** The file that the button CSV saves. */
async function csv(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).first().click()])
  return readFileSync(await download.path(), 'utf8')
}

/**
 * The picture that the last button PNG saves: how large it is, and of each colour that it should have, how many pixels do.
 * A colour is that of a selector's first element, by the name of its property.
 */
async function png(page, colours) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'PNG' }).last().click()])
  const data = readFileSync(await download.path()).toString('base64')
  const styles = await page.evaluate((list) => list.map((text) => {
    const at = text.lastIndexOf(' '), element = document.querySelector(text.slice(0, at))
    return element && getComputedStyle(element).getPropertyValue(text.slice(at + 1))
  }), colours)
  const plain = await (await browser.newContext()).newPage() // the console's policy refuses data
  const seen = await plain.evaluate(async ([data, styles]) => {
    const image = new Image()
    image.src = `data:image/png;base64,${data}`
    await image.decode()
    const canvas = document.createElement('canvas'), context = canvas.getContext('2d', { willReadFrequently: true })
    const wanted = styles.map((style) => {
      if (!style) return null
      context.fillStyle = style
      context.fillRect(0, 0, 1, 1)
      return context.getImageData(0, 0, 1, 1).data
    })
    canvas.width = image.width
    canvas.height = image.height
    context.drawImage(image, 0, 0)
    const { data: pixels } = context.getImageData(0, 0, canvas.width, canvas.height), counts = styles.map(() => 0)
    for (let i = 0; i < pixels.length; i += 4) {
      wanted.forEach((c, k) => { if (c && [0, 1, 2].every((n) => Math.abs(pixels[i + n] - c[n]) <= 4)) counts[k]++ })
    }
    return { width: image.width, height: image.height, counts }
  }, [data, styles])
  await plain.context().close()
  return { width: seen.width, height: seen.height, pixels: Object.fromEntries(colours.map((name, i) => [name, seen.counts[i]])) }
}

/** What axe finds wrong by WCAG, levels A and AA; in other colours, only what depends on them. */
async function findings(page, colours) {
  if (!colours) await page.evaluate(axe)
  const { violations } = await page.evaluate(
    (options) => window.axe.run(document, options),
    { runOnly: colours ? { type: 'rule', values: ['color-contrast'] } : ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] },
  )
  return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.any.map((a) => a.message).join('; ')}`).join(' | ')}`)
}

/** Saves a picture: WebP, which the browser makes itself. */
async function picture(page, { picture: file, dark, clip }) {
  if (dark) await page.emulateMedia({ colorScheme: 'dark' })
  const png = await page.screenshot({ clip, animations: 'disabled' })
  const plain = await (await browser.newContext()).newPage()
  const webp = await plain.evaluate(async (base64) => {
    const image = new Image()
    image.src = `data:image/png;base64,${base64}`
    await image.decode()
    const canvas = document.createElement('canvas')
    canvas.width = image.width
    canvas.height = image.height
    canvas.getContext('2d').drawImage(image, 0, 0)
    return canvas.toDataURL('image/webp', 0.8).split(',')[1]
  }, png.toString('base64'))
  await plain.context().close()
  await writeFile(file, file.endsWith('.png') ? png : Buffer.from(webp, 'base64'))
  if (dark) await page.emulateMedia({ colorScheme: 'light' })
}
