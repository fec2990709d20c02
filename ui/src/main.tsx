/** Where the page begins. */

import {render} from 'preact';
import {followAddress} from './state/address';
import {startSession} from './state/session';
import {App} from './ui/app';
import {listenToKeys} from './ui/keys';

followAddress();
startSession();
listenToKeys();
const root = document.getElementById('app');
if (root) render(<App />, root);
