/** The result of comparing an address with a template, and the number of steps it took. */
interface UriComparison {
  readonly fits: boolean;
  readonly steps: number;
}

/** A parsed resource template (RFC 6570). */
export interface UriTemplate {
  readonly text: string;
  /** Checks whether an address fits: each expression matches anything. The steps grow with the address only. */
  compare(uri: string): UriComparison;
}

/** The text between two expressions. */
interface TemplatePart {
  readonly text: string;
  /** For each matched length, the length that still matches when the next character does not (KMP). */
  readonly fallbacks: Uint16Array;
}

const maxUriLength = 8192;
const maxTemplateLength = 1024;
const noMatch: UriComparison = { fits: false, steps: 0 };

/** Parses a template once for all comparisons. A template that is too long fits no address. */
export function readUriTemplate(text: string): UriTemplate {
  if (text.length > maxTemplateLength) return { text, compare: () => noMatch };
  const words = text.split(/\{[^{}]*\}/);
  if (words.length === 1) return { text, compare: (uri) => ({ fits: uri === text, steps: 0 }) };
  const [head = '', tail = ''] = [words[0], words.at(-1)];
  const parts = words.slice(1, -1).flatMap((word) => (word === '' ? [] : [readPart(word)]));
  return {
    text,
    compare(uri) {
      const isLong = uri.length > maxUriLength || uri.length < head.length + tail.length;
      if (isLong || !uri.startsWith(head) || !uri.endsWith(tail)) return noMatch;
      return compareParts(uri, parts, head.length, uri.length - tail.length);
    },
  };
}

function readPart(text: string): TemplatePart {
  const fallbacks = new Uint16Array(text.length);
  let matched = 0;
  for (let at = 1; at < text.length; at++) {
    while (matched > 0 && text[at] !== text[matched]) matched = fallbacks[matched - 1] ?? 0;
    if (text[at] === text[matched]) matched++;
    fallbacks[at] = matched;
  }
  return { text, fallbacks };
}

/** Finds the parts in order, each as early as possible. No character is read more than twice (KMP). */
function compareParts(uri: string, parts: readonly TemplatePart[], from: number, to: number): UriComparison {
  let at = from;
  let steps = 0;
  for (const { text, fallbacks } of parts) {
    let matched = 0;
    while (matched < text.length) {
      if (to - at < text.length - matched) return { fits: false, steps };
      steps++;
      if (uri[at] === text[matched]) {
        matched++;
        at++;
      } else if (matched === 0) at++;
      else matched = fallbacks[matched - 1] ?? 0;
    }
  }
  return { fits: true, steps };
}
