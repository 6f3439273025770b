// SPDX-License-Identifier: Apache-2.0

// What the programs that open the console in a browser share.
import { chromium } from 'playwright-core'

export const patience = Number(process.env.WAYMARK_PATIENCE || 1) * 60_000

export const launch = () => chromium.launch({
  executablePath: process.env.WAYMARK_CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--force-prefers-reduced-motion'], // tests run as root
})

/** What every page begins with. */
export const usual = { colorScheme: 'light', reducedMotion: 'reduce', timezoneId: 'UTC', locale: 'en-GB', acceptDownloads: true }

/** Waits until every answer is there. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main h1, main .nothing, main .notice.bad') && !document.querySelector('main [aria-busy="true"]'))
}

/** What is wider than the page, in the page: only boxes that scroll may have more. */
export function beyond() {
  if (document.documentElement.scrollWidth <= window.innerWidth) return []
  const scrolls = (e) => e && e !== document.body && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
  const list = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !scrolls(e.parentElement))
  return [`the page is ${document.documentElement.scrollWidth} px wide: ${list.slice(0, 3).map((e) => `${e.tagName} ${e.className}`).join(', ')}`]
}
