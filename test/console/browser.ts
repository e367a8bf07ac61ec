import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults, RunOptions } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findProgram } from '../needs/program.ts';
import { proof } from '../proof.ts';

export const hasChromium = (): boolean => findProgram('chromium') !== undefined;

/** The browser itself asks no other host for anything. */
const quiet = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Fewer processes, and no compilers for scripts that run long: both cost more than they save in the life of a test. */
const frugal = ['--in-process-gpu', '--renderer-process-limit=1', '--js-flags=--no-opt --no-maglev'];

/** Starts the real Chromium of this machine. */
export function openBrowser(): Promise<Browser> {
  // The figures of proof are those of a browser as users have it.
  const args = [...quiet, ...(proof ? [] : frugal)];
  // As root, Chromium cannot make its own sandbox.
  if (process.getuid?.() === 0) args.push('--no-sandbox', ...(proof ? [] : ['--no-zygote']));
  return chromium.launch({ executablePath: findProgram('chromium') as string, args });
}

export type Scheme = 'light' | 'dark';

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: Scheme;
}

/** A tab of its own profile, with all that went wrong in it. */
export interface Tab {
  readonly page: Page;
  /** Errors of scripts, of the console and of the content policy, and requests to other origins. */
  readonly problems: string[];
  close(): Promise<void>;
}

export async function openTab(
  browser: Browser,
  origin: string,
  { width = 1440, height = 900, scheme = 'light' }: PageOptions = {},
): Promise<Tab> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: 'reduce',
  });
  // A missing element is found out soon; nothing in a page takes that long.
  context.setDefaultTimeout(15_000);
  const problems: string[] = [];
  context.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('blob:')) problems.push(`request to another origin: ${url}`);
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      problems.push(`console: ${message.text()} ${message.location().url}`);
  });
  return { page, problems, close: () => context.close() };
}

/**
 * Leaves out what the browser reports about sessions that have ended: a request that was under way while its session ended
 * is answered with 404.
 */
export function withoutLateReads(problems: readonly string[], endedIds: readonly string[]): string[] {
  const isLate = (problem: string) =>
    problem.includes('status of 404') && endedIds.some((id) => problem.includes(`/api/v1/sessions/${id}`));
  return problems.filter((problem) => !isLate(problem));
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The serious and critical findings of axe in a part of the page, as lines. */
export async function findAccessFaults(page: Page, part = 'html'): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeSource);
  const { violations } = await page.evaluate(async (selector) => {
    const { axe } = globalThis as unknown as { axe: { run(part: string, options: RunOptions): Promise<AxeResults> } };
    return axe.run(selector, { resultTypes: ['violations'], selectors: false });
  }, part);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/** The elements that reach beyond the right edge of the page, which then scrolls sideways. */
export function findOverflow(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { clientWidth, scrollWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    return [...document.body.querySelectorAll('*')]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
      .map((element) => `${element.tagName}.${element.className}: ${element.textContent?.slice(0, 60)}`);
  });
}
