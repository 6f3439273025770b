// SPDX-License-Identifier: Apache-2.0

// The frame around a screen: navigation, toolbar, keys.
import type { ComponentChildren } from 'preact'
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks'
import { reload } from './ask'
import { Announcements } from './parts/announce'
import { Toolbar } from './parts/toolbar'
import { LoggedOut, loggedOut, Who } from './parts/who'
import { zone } from './question'
import { screenHref, screenName, set, visit } from './route'
import { screens } from './registry'
import type { Screen } from './screen'
import { setShortcuts, setTheme, shortcuts, theme, type Theme } from './theme'

export function App() {
  const name = screenName.value
  const screen = name === '' ? screens[0] : screens.find((s) => s.id === name)
  const help = useRef<HTMLDialogElement>(null), main = useRef<HTMLElement>(null), nav = useRef<HTMLElement>(null), seen = useRef(name)
  useEffect(() => { document.title = screen ? `${screen.title} · Waymark` : 'Waymark' }, [screen])
  useEffect(() => {
    if (seen.current !== name) main.current?.focus({ preventScroll: true })
    seen.current = name
    const link = nav.current?.querySelector<HTMLElement>('[aria-current]') // narrow windows do not have room for all
    if (nav.current && link) nav.current.scrollLeft = link.offsetLeft + (link.offsetWidth - nav.current.clientWidth) / 2
  }, [name])
  useEffect(() => {
    const listen = (event: KeyboardEvent) => keyPressed(event, () => help.current?.showModal())
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [])
  return (
    <>
      <a class="skip" href="#main">Skip to the answer</a>
      <header class="head">
        <a class="brand" href={screenHref('')}><Mark />Waymark</a>
        <nav aria-label="Screens" ref={nav}>
          <ul>{screens.map((s) => <li key={s.id}><a href={screenHref(s.id)} aria-current={s === screen ? 'page' : undefined}>{s.title}</a></li>)}</ul>
        </nav>
        <div class="preferences">
          <Who />
          <label><span class="hidden">Time zone</span>
            <select value={zone()} onChange={(event) => set({ zone: event.currentTarget.value === 'local' ? 'local' : null }, true)}>
              <option value="utc">UTC</option>
              <option value="local">local time</option>
            </select>
          </label>
          <label><span class="hidden">Colours</span>
            <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
              <option value="system">system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <button type="button" class="quiet" aria-label="Help" onClick={() => help.current?.showModal()}>?</button>
        </div>
      </header>
      {screen && !loggedOut.value && <Toolbar screen={screen} />}
      <main id="main" ref={main} tabIndex={-1}>
        {loggedOut.value ? <LoggedOut /> : screen ? <Whole key={screen.id}><screen.view /></Whole> : <div class="nothing"><h1>There is no screen “{name}”</h1><p><a href={screenHref('')}>Paths</a></p></div>}
      </main>
      <Help of={help} screen={screen} />
      <Announcements />
    </>
  )
}

/** A fault of one screen leaves the others. */
function Whole({ children }: { children: ComponentChildren }) {
  const [fault, again] = useErrorBoundary()
  if (!fault) return <>{children}</>
  return (
    <div class="notice bad" role="alert">
      <div><h1>This screen has a fault</h1><p>{fault instanceof Error ? fault.message : String(fault)}. The other screens and the commands are not concerned.</p></div>
      <button type="button" onClick={again}>Try again</button>
    </div>
  )
}

const Mark = () => (
  <svg class="mark" viewBox="0 0 16 16" aria-hidden="true"><path d="M3 12.5 6 4l4 8 3-8.500" /><circle cx="3" cy="12.500" r="1.800" /><circle cx="6" cy="4" r="1.800" /><circle cx="10" cy="12" r="1.800" /><circle cx="13" cy="3.500" r="1.800" /></svg>
)

/** Single keys work outside fields, and can be switched off. */
function keyPressed(event: KeyboardEvent, help: () => void): void {
  const target = event.target
  if (!shortcuts.value || event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement || document.querySelector('dialog[open]')) return
  const focus = (selector: string) => document.querySelector<HTMLElement>(selector)?.focus()
  const actions: Record<string, () => void> = {
    '?': help, r: reload, '/': () => focus('[data-filter]'), t: () => focus('[data-time]'), j: () => focus('main [role=grid]'),
    c: () => document.querySelector<HTMLElement>('[data-copy-command]')?.click(),
  }
  const number = Number(event.key)
  const action = number >= 1 && number <= screens.length ? () => visit(screenHref(screens[number - 1]!.id)) : Object.hasOwn(actions, event.key) ? actions[event.key] : undefined
  if (!action) return
  event.preventDefault()
  action()
}

function Help({ of, screen }: { of: { current: HTMLDialogElement | null }; screen?: Screen }) {
  return (
    <dialog ref={of} class="help" aria-labelledby="help-title">
      <h2 id="help-title">{screen?.title ?? 'Waymark'}</h2>
      {screen && <p>{screen.about}</p>}
      <p>Everything that you see is in the address: copy it to show others the same. <b>Copy as command</b> gives the command that answers the same question.</p>
      <p>Times are those that the nodes reported, by their own clocks, without a correction. Percentiles are within 2.2% of the exact ones. Grey means that nothing is known.</p>
      <dl>
        <dt><kbd>1</kbd>–<kbd>{screens.length}</kbd></dt><dd>screens</dd>
        <dt><kbd>t</kbd> <kbd>/</kbd></dt><dd>time, filters</dd>
        <dt><kbd>j</kbd></dt><dd>the table; then <kbd>↓</kbd> <kbd>↑</kbd> <kbd>Page</kbd> <kbd>Home</kbd> <kbd>End</kbd>, and <kbd>Enter</kbd> opens a row</dd>
        <dt><kbd>c</kbd></dt><dd>copy as command</dd>
        <dt><kbd>r</kbd></dt><dd>ask again</dd>
      </dl>
      <label><input type="checkbox" checked={shortcuts.value} onChange={(event) => setShortcuts(event.currentTarget.checked)} /> Single keys are shortcuts</label>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  )
}
