/* SPDX-License-Identifier: Apache-2.0
 *
 * The search page. Browsers let a page that was opened as a file read no other file, but run scripts:
 * the index is one, search_index.js. Every word of the query has to be in a section; one in its title
 * counts more.
 */
'use strict';
(() => {
  const query = (new URLSearchParams(location.search).get('q') || '').trim();
  const words = query.toLowerCase().split(/\s+/).filter(w => w);
  const found = document.getElementById('found'), results = document.getElementById('results');
  document.querySelector('input[type=search]').value = query;

  function count(text, word) {
    let n = 0;
    for (let at = text.indexOf(word); at >= 0 && n < 20; at = text.indexOf(word, at + word.length)) n++;
    return n;
  }
  function score(section) {
    let sum = 0;
    for (const word of words) {
      const n = count(section.low, word), inTitle = count(section.title.toLowerCase(), word);
      if (!n && !inTitle) return 0;
      sum += inTitle * 20 + Math.min(n, 5);
    }
    return sum;
  }
  function excerpt(section) {
    const at = Math.max(0, section.low.indexOf(words[0]) - 80);
    return (at ? '… ' : '') + section.text.slice(at, at + 240) + (section.text.length > at + 240 ? ' …' : '');
  }
  /* Text with the words of the query marked. */
  function marked(text) {
    const p = document.createElement('p');
    const pattern = new RegExp('(' + words.map(w => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|') + ')', 'gi');
    text.split(pattern).forEach((part, i) => {
      const node = document.createElement(i % 2 ? 'mark' : 'span');
      node.textContent = part;
      p.append(node);
    });
    return p;
  }

  if (!words.length) {
    found.textContent = 'The field above takes words, such as lse_head_stride.';
    return;
  }
  const pageOf = d => d.location.split('#')[0];
  const all = searchIndex.docs.map(d => ({...d, low: d.text.toLowerCase()}))
    .map(d => ({...d, score: score(d)})).filter(d => d.score > 0);
  /* A page has the text of its sections: it counts where none of them has all words. */
  const better = new Set(all.filter(d => d.location.includes('#')).map(pageOf));
  const sections = all.filter(d => d.location.includes('#') || !better.has(d.location))
    .sort((a, b) => b.score - a.score);
  found.textContent = (sections.length || 'No') + ' section' + (sections.length === 1 ? '' : 's') + ' with "' + query + '"';
  for (const section of sections.slice(0, 60)) {
    const li = document.createElement('li'), a = document.createElement('a');
    a.href = section.location;
    a.textContent = section.title || section.location;
    const page = document.createElement('small');
    page.textContent = ' ' + pageOf(section);
    li.append(a, page, marked(excerpt(section)));
    results.append(li);
  }
})();
