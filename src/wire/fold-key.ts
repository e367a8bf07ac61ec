const ascii = /^[\x00-\x7f]*$/;

/**
 * A key as the most forgiving reader takes it: some match names whatever their case, by Unicode's rules, where "ſ" is
 * an s and the kelvin sign a k.
 */
export function foldKey(key: string): string {
  return (ascii.test(key) ? key : key.toUpperCase()).toLowerCase();
}
