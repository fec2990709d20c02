/** Where the page begins. */

import {render} from 'preact';
import {listenToKeys} from './kit/keys';
import {App} from './shell/app';
import {followAddress} from './state/address';
import {startSession} from './state/session';
import {listenToSteps} from './views/ranks/step';

followAddress();
startSession();
listenToKeys();
listenToSteps();
const root = document.getElementById('app');
if (root) render(<App />, root);
