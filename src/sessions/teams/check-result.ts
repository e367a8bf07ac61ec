import { toCanonicalJson } from '../../lib/json/canonical-json.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import type { JsonValue } from '../../stores/record.ts';

/** The way from a whole JSON value to one of its parts. */
export interface JsonPlace {
  readonly above: JsonPlace | undefined;
  readonly key: string | number;
  readonly depth: number;
}

/** A part of a value that does not fit, with the end of a sentence about it. */
export interface Misfit {
  readonly place: JsonPlace;
  readonly expected: string;
  /** The part that the nearest of several schemas refuses. */
  readonly nearest?: Misfit | undefined;
}

/** The work that is left for one check. A few lines of schema can ask for more than a day of it. */
export interface CheckBudget {
  steps: number;
  levels: number;
}

export type ValueCheck = (value: JsonValue, place: JsonPlace, budget: CheckBudget) => Misfit | undefined;

/** One schema in a schema. */
export interface SchemaNode {
  readonly place: JsonPlace;
  readonly checks: ValueCheck[];
  /** The schemas in it by the rest of their JSON pointers, such as `properties/a`. */
  readonly parts: Map<string, SchemaNode>;
  /** The schemas that it applies to the same value, and not to a part of it. */
  readonly sameValue: SchemaNode[];
}

/** A regular expression that takes linear time. */
export interface SchemaPattern {
  test(text: string): boolean;
  /** The steps that one character costs. */
  readonly cost: number;
}

export type JsonType = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object';

/** A step is at most about 0.1 µs, so a check stays below 0.1 s. */
const maxSteps = 1_000_000;
/** The schemas that are open at a time. Each takes room on the stack. */
const maxLevels = 500;
const maxValueDepth = 64;
const maxSentence = 300;

export const topPlace: JsonPlace = { above: undefined, key: '', depth: 0 };

class BudgetError extends Error {}

/** Checks a value and returns one sentence about the first part that does not fit. */
export function checkValue(schema: SchemaNode, value: JsonValue): string | undefined {
  const budget = { steps: maxSteps, levels: maxLevels };
  try {
    const misfit = checkShape(value, topPlace, budget) ?? checkNode(schema, value, topPlace, budget);
    return misfit && describeMisfit(misfit);
  } catch (error) {
    if (error instanceof BudgetError) return error.message;
    throw error;
  }
}

function spendSteps(budget: CheckBudget, steps: number): void {
  budget.steps -= steps;
  if (budget.steps >= 0) return;
  throw new BudgetError(
    'The value cannot be checked in a reasonable time: it is too large for this schema, or the schema combines too many others by "allOf", "anyOf", "oneOf" or "$ref".',
  );
}

/** Refuses what is too deep for the checks, and what is not JSON. */
function checkShape(value: JsonValue, place: JsonPlace, budget: CheckBudget): Misfit | undefined {
  spendSteps(budget, 1);
  if (place.depth > maxValueDepth) return { place, expected: `is nested more than ${maxValueDepth} levels deep` };
  if (typeof value === 'number' && !Number.isFinite(value)) return { place, expected: 'is too large for a number' };
  if (Array.isArray(value))
    return findMisfit(value.keys(), (key) => checkShape(value[key]!, enterPlace(place, key), budget));
  if (!isObject(value)) return undefined;
  return findMisfit(Object.keys(value), (key) => checkShape(value[key]!, enterPlace(place, key), budget));
}

export function checkNode(
  node: SchemaNode,
  value: JsonValue,
  place: JsonPlace,
  budget: CheckBudget,
): Misfit | undefined {
  spendSteps(budget, 1 + node.checks.length);
  if (budget.levels === 0) throw new BudgetError('The value and the schema are together nested too deeply.');
  budget.levels--;
  let misfit: Misfit | undefined;
  for (const check of node.checks) {
    misfit = check(value, place, budget);
    if (misfit !== undefined) break;
  }
  budget.levels++;
  return misfit;
}

export const refuseAll: ValueCheck = (_, place) => ({ place, expected: 'is not allowed' });

export function createTypeCheck(types: ReadonlySet<string>): ValueCheck {
  const names = [...types].map((type) => `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`.replace(/^a null$/, 'null'));
  const expected = `must be ${names.join(' or ')}`;
  return (value, place) => {
    const type = typeOf(value);
    if (types.has(type) || (type === 'number' && types.has('integer') && Number.isInteger(value))) return undefined;
    return { place, expected };
  };
}

export function createEnumCheck(allowed: readonly JsonValue[]): ValueCheck {
  const texts = new Set(allowed.map(toCanonicalJson));
  const shown = allowed.slice(0, 20).map((each) => shorten(JSON.stringify(each), 40));
  const expected = shorten(`must be ${allowed.length === 1 ? '' : 'one of '}${shown.join(', ')}`, 160);
  return (value, place, budget) => (texts.has(writeText(value, budget)) ? undefined : { place, expected });
}

export function createNumberCheck(fits: (value: number) => boolean, expected: string): ValueCheck {
  return (value, place) => (typeof value !== 'number' || fits(value) ? undefined : { place, expected });
}

export function createMultipleCheck(divisor: number): ValueCheck {
  const expected = `must be a multiple of ${divisor}`;
  return (value, place, budget) =>
    typeof value !== 'number' || isMultiple(value, divisor, budget) ? undefined : { place, expected };
}

/** Checks a limit on the characters of a text, or on the members of an array or object. */
export function createSizeCheck(type: JsonType, fits: (size: number) => boolean, expected: string): ValueCheck {
  return (value, place, budget) =>
    typeOf(value) !== type || fits(measureSize(value, budget)) ? undefined : { place, expected };
}

export function createPatternCheck(pattern: SchemaPattern, source: string): ValueCheck {
  const expected = `must match the pattern ${quoteName(source)}`;
  return (value, place, budget) =>
    typeof value !== 'string' || matchPattern(pattern, value, budget) ? undefined : { place, expected };
}

export function createUniqueCheck(): ValueCheck {
  return (value, place, budget) => {
    if (!Array.isArray(value)) return undefined;
    const seen = new Map<string, number>();
    return findMisfit(value.keys(), (index) => {
      const text = writeText(value[index]!, budget);
      const first = seen.get(text);
      seen.set(text, index);
      return first === undefined
        ? undefined
        : { place, expected: `must not have equal items, but those at ${first} and ${index} are` };
    });
  };
}

export function createPresenceCheck(names: readonly string[], condition?: string): ValueCheck {
  const reason = condition === undefined ? '' : `, because it has ${quoteName(condition)}`;
  return (value, place, budget) => {
    if (!isObject(value) || (condition !== undefined && !Object.hasOwn(value, condition))) return undefined;
    spendSteps(budget, names.length);
    const missing = names.find((name) => !Object.hasOwn(value, name));
    if (missing === undefined) return undefined;
    return { place, expected: `must have the property ${writeName(missing, budget)}${reason}` };
  };
}

export interface MemberSchemas {
  readonly named: ReadonlyMap<string, SchemaNode>;
  readonly patterns: readonly { readonly pattern: SchemaPattern; readonly node: SchemaNode }[];
  readonly others: SchemaNode | undefined;
}

export function createMembersCheck({ named, patterns, others }: MemberSchemas): ValueCheck {
  return (value, place, budget) => {
    if (!isObject(value)) return undefined;
    const keys = Object.keys(value);
    spendSteps(budget, 2 * keys.length);
    return findMisfit(keys, (key) => {
      const nodes = patterns.filter(({ pattern }) => matchPattern(pattern, key, budget)).map(({ node }) => node);
      const node = named.get(key) ?? (nodes.length === 0 ? others : undefined);
      if (node !== undefined) nodes.push(node);
      return findMisfit(nodes, (each) => checkNode(each, value[key]!, enterPlace(place, key), budget));
    });
  };
}

export function createNamesCheck(names: SchemaNode): ValueCheck {
  return (value, place, budget) => {
    if (!isObject(value)) return undefined;
    return findMisfit(Object.keys(value), (key) => {
      const misfit = checkNode(names, key, place, budget);
      return misfit && { place, expected: `has the property ${writeName(key, budget)}, whose name ${misfit.expected}` };
    });
  };
}

export function createDependentCheck(name: string, node: SchemaNode): ValueCheck {
  return (value, place, budget) =>
    isObject(value) && Object.hasOwn(value, name) ? checkNode(node, value, place, budget) : undefined;
}

export function createItemsCheck(first: readonly SchemaNode[], others: SchemaNode | undefined): ValueCheck {
  return (value, place, budget) => {
    if (!Array.isArray(value)) return undefined;
    const checked = others === undefined ? value.slice(0, first.length) : value;
    return findMisfit(checked.keys(), (index) =>
      checkNode((first[index] ?? others)!, checked[index]!, enterPlace(place, index), budget),
    );
  };
}

export function createContainsCheck(node: SchemaNode, min: number, max: number): ValueCheck {
  const limit =
    max === Number.POSITIVE_INFINITY ? `at least ${formatCount(min, 'item')}` : `${min} to ${formatCount(max, 'item')}`;
  const expected = `must have ${limit} fitting the schema in "contains"`;
  return (value, place, budget) => {
    if (!Array.isArray(value)) return undefined;
    let fitting = 0;
    for (const [index, item] of value.entries()) {
      if (checkNode(node, item, enterPlace(place, index), budget) === undefined) fitting++;
    }
    return fitting >= min && fitting <= max ? undefined : { place, expected };
  };
}

export function joinChecks(checks: readonly ValueCheck[]): ValueCheck {
  return (value, place, budget) => {
    spendSteps(budget, checks.length);
    return findMisfit(checks, (check) => check(value, place, budget));
  };
}

export function createAllCheck(nodes: readonly SchemaNode[]): ValueCheck {
  return (value, place, budget) => findMisfit(nodes, (node) => checkNode(node, value, place, budget));
}

export function createAnyCheck(keyword: 'anyOf' | 'oneOf', nodes: readonly SchemaNode[]): ValueCheck {
  const none = `must fit one of the ${nodes.length} schemas in "${keyword}"`;
  return (value, place, budget) => {
    let nearest: Misfit | undefined;
    let fitting: number | undefined;
    for (const [index, node] of nodes.entries()) {
      const misfit = checkNode(node, value, place, budget);
      if (misfit !== undefined) {
        const deepest = misfit.nearest ?? misfit;
        if (nearest === undefined || deepest.place.depth > nearest.place.depth) nearest = deepest;
      } else if (keyword === 'anyOf') return undefined;
      else if (fitting === undefined) fitting = index;
      else return { place, expected: `must fit only one schema in "oneOf", but fits those at ${fitting} and ${index}` };
    }
    return fitting === undefined ? { place, expected: none, nearest } : undefined;
  };
}

export function createNotCheck(node: SchemaNode): ValueCheck {
  return (value, place, budget) =>
    checkNode(node, value, place, budget) ? undefined : { place, expected: 'must not fit the schema in "not"' };
}

export function createIfCheck(
  condition: SchemaNode,
  holds: SchemaNode | undefined,
  fails: SchemaNode | undefined,
): ValueCheck {
  return (value, place, budget) => {
    const node = checkNode(condition, value, place, budget) === undefined ? holds : fails;
    return node && checkNode(node, value, place, budget);
  };
}

/** Whether a number is a multiple of another, exactly as both are written: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, divisor: number, budget: CheckBudget): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
  const [dividend, by] = [readDecimal(value), readDecimal(divisor)];
  const shift = dividend.exponent - by.exponent;
  spendSteps(budget, 20 + Math.abs(shift));
  const scale = 10n ** BigInt(Math.abs(shift));
  return shift < 0 ? dividend.digits % (by.digits * scale) === 0n : (dividend.digits * scale) % by.digits === 0n;
}

function readDecimal(value: number): { readonly digits: bigint; readonly exponent: number } {
  const [digits = '', power = '0'] = String(value).split('e');
  const [whole = '', fraction = ''] = digits.split('.');
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

export function isObject(value: unknown): value is { [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function typeOf(value: JsonValue): JsonType {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : (typeof value as JsonType);
}

function findMisfit<Each>(all: Iterable<Each>, check: (each: Each) => Misfit | undefined): Misfit | undefined {
  for (const each of all) {
    const misfit = check(each);
    if (misfit !== undefined) return misfit;
  }
  return undefined;
}

function matchPattern(pattern: SchemaPattern, text: string, budget: CheckBudget): boolean {
  spendSteps(budget, 10 + Math.ceil(text.length * pattern.cost));
  return pattern.test(text);
}

function measureSize(value: JsonValue, budget: CheckBudget): number {
  if (Array.isArray(value)) return value.length;
  if (typeof value === 'string') {
    spendSteps(budget, value.length >> 4);
    return countCharacters(value);
  }
  const size = Object.keys(value as object).length;
  spendSteps(budget, 2 * size);
  return size;
}

function countCharacters(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += (text.codePointAt(at) as number) > 0xffff ? 2 : 1) count++;
  return count;
}

/** Quotes a name for a misfit. Most misfits only mean that another schema of "anyOf" is the right one. */
function writeName(name: string, budget: CheckBudget): string {
  spendSteps(budget, 40);
  return quoteName(name);
}

/** Writes a value so that equal values have equal texts. */
function writeText(value: JsonValue, budget: CheckBudget): string {
  spendForText(value, budget);
  return toCanonicalJson(value);
}

/** Spends the steps for a text before it is written. The text of a part is copied once on each level above it. */
function spendForText(value: JsonValue, budget: CheckBudget): number {
  spendSteps(budget, 8);
  let length = typeof value === 'string' ? value.length : 8;
  if (Array.isArray(value)) for (const item of value) length += spendForText(item, budget);
  else if (isObject(value)) {
    for (const key of Object.keys(value)) length += key.length + spendForText(value[key]!, budget);
  }
  spendSteps(budget, length >> 4);
  return length;
}

export function enterPlace(above: JsonPlace, key: string | number): JsonPlace {
  return { above, key, depth: above.depth + 1 };
}

function describeMisfit({ place, expected, nearest }: Misfit): string {
  const where = place.depth === 0 ? 'The value' : `The value at ${describePlace(place)}`;
  if (nearest === undefined) return shorten(`${where} ${expected}.`, maxSentence);
  const inside = nearest.place.depth === place.depth ? 'it' : describePlace(nearest.place);
  return shorten(`${where} ${expected}; the nearest refuses it because ${inside} ${nearest.expected}.`, maxSentence);
}

/** Writes a place as a JSON pointer in quotes. */
export function describePlace(place: JsonPlace, start = ''): string {
  const keys: string[] = [];
  for (let each = place; each.above !== undefined; each = each.above) {
    keys.unshift(escapeKey(String(each.key)));
  }
  return quoteName(start + keys.map((key) => `/${key}`).join(''), 120);
}

export function escapeKey(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Quotes a name that somebody else chose, short and visible. */
export function quoteName(name: string, max = 60): string {
  return `"${shorten(name, max)}"`;
}

function shorten(text: string, max: number): string {
  const whole = escapeControls(text.slice(0, max + 1));
  const part = whole.length > max ? `${whole.slice(0, max - 1)}…` : whole;
  return part.replace(/\p{Surrogate}/gu, '\ufffd');
}
