// SPDX-License-Identifier: Apache-2.0

// Builds the console and writes it, compressed, to collector/internal/console/assets, with the hash of the
// sources that it was built from; and third-party.json, the libraries in it with their licences, which packages need.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'

const root = import.meta.dirname
const built = join(root, '../../build/console')
const assets = join(root, '../internal/console/assets')
const sum = (data) => createHash('sha256').update(data).digest('hex')

// sources are the files that decide about the assets; scripts/check/console.go lists the same.
function sources() {
  const list = ['build.mjs', 'index.html', 'package-lock.json', 'package.json', 'tsconfig.json', 'vite.config.ts']
  for (const entry of readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })) {
    if (entry.isFile() && !entry.name.includes('.test.')) list.push(join(entry.parentPath, entry.name).slice(root.length + 1))
  }
  return list.sort()
}

// libraries are what the assets contain of others.
function libraries() {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const list = []
  for (const [path, { version, license, dev }] of Object.entries(packages)) {
    if (path === '' || dev) continue
    const file = readdirSync(join(root, path)).find((name) => /^licen[cs]e/i.test(name))
    if (!file) throw new Error(`${path} has no file with its licence`)
    list.push({ name: path.slice('node_modules/'.length), version, license, text: readFileSync(join(root, path, file), 'utf8').trim() })
  }
  return list
}

await build({ root, configFile: join(root, 'vite.config.ts'), logLevel: 'warn' })

const files = {}
for (const name of readdirSync(join(built, 'assets'))) files[`assets/${name}`] = readFileSync(join(built, 'assets', name))
let page = readFileSync(join(built, 'index.html'), 'utf8')
for (const [name, data] of Object.entries(files)) page = page.replaceAll(`/${name}"`, `/${name}?v=${sum(data).slice(0, 16)}"`)
files['index.html'] = Buffer.from(page)

rmSync(assets, { recursive: true, force: true })
mkdirSync(assets, { recursive: true })
let whole = 0
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' }
const manifest = { sources: '', files: [] }
for (const name of Object.keys(files).sort()) {
  const packed = gzipSync(files[name], { level: 9 })
  packed[9] = 255 // the operating system is of no interest
  writeFileSync(join(assets, `${basename(name)}.gz`), packed)
  manifest.files.push({ path: `/${name}`, file: `${basename(name)}.gz`, type: types[extname(name)], hash: sum(files[name]).slice(0, 16) })
  whole += packed.length
}
manifest.sources = sum(sources().map((name) => `${sum(readFileSync(join(root, name)))}  ${name}\n`).join(''))
writeFileSync(join(assets, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
writeFileSync(join(root, 'third-party.json'), `${JSON.stringify(libraries(), null, 2)}\n`)
console.log(`console: ${Object.keys(files).length} files, ${(whole / 1000).toFixed(1)} kB compressed`)
if (whole > 250_000) throw new Error('the assets have more than 250 kB; a library is too big')
