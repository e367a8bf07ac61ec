import type { ServerResponse } from 'node:http';

export interface LoginPage {
  readonly title: string;
  readonly words: readonly string[];
  /** What the button says that posts to the same address; without it there is none. */
  readonly button?: string;
  /** The answer to that post may lead to another host. */
  readonly leadsAway?: boolean;
}

/** A page without scripts, which no other page may show inside itself. */
export function sendPage(response: ServerResponse, status: number, page: LoginPage): void {
  const { title, words, button } = page;
  const text = words.map((each) => `<p>${escaped(each)}</p>`).join('');
  const form = button === undefined ? '' : `<form method="post"><button>${escaped(button)}</button></form>`;
  const style =
    'body{font:1.1em/1.5 system-ui;max-width:36em;margin:4em auto;padding:0 1em}button{font:inherit;padding:.4em 1em}';
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(title)}</title><style>${style}</style><h1>${escaped(title)}</h1>${text}${form}</html>`;
  const bytes = Buffer.from(html);
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-length': bytes.length,
      'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'${formAction(page)}`,
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      // The address is as good as the link; our own page needs it to be told where a form came from.
      'referrer-policy': 'same-origin',
    })
    .end(bytes);
}

/** Browsers hold the addresses that a form is redirected to against this as well. */
function formAction({ button, leadsAway = false }: LoginPage): string {
  if (leadsAway) return '';
  return button === undefined ? "; form-action 'none'" : "; form-action 'self'";
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
