//! Every layout, against the columns it must give.

use highwater_snapshot::{Encoding, Snapshot};
use highwater_testkit::{testdata, warnings};

use crate::common::{assert_same, layout, normal_form};

/// All columns, and what was odd.
fn columns(name: &str) -> String {
    let snapshot = layout(name);
    normal_form(&snapshot) + &warnings(&snapshot)
}

#[test]
fn torch_1_5() {
    insta::assert_snapshot!(columns("torch_1_5.pickle"), @"
    layout list
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
      block address=0x7f4000000000 size=1024 requested=1024 state=active_allocated stack=0
      block address=0x7f4000000400 size=512 requested=512 state=active_pending_free stack=0
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4040000000 total=20971520 stream=0 type=large pool=0,0 expandable=false stack=0
      block address=0x7f4040000000 size=20971520 requested=20971520 state=active_allocated stack=0
    ");
}

#[test]
fn torch_1_13() {
    insta::assert_snapshot!(columns("torch_1_13.pickle"), @r#"
    layout list
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=21968 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=0
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    "#);
}

#[test]
fn torch_2_0() {
    insta::assert_snapshot!(columns("torch_2_0.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
    stack 2 "c10::alloc"@"":0 "at::empty"@"":0
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=2
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=7
    stack 3 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=- pool=- context=- metadata=- category=- stack=3
    stack 4 "c10::alloc"@"":0
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=- pool=- context=- metadata=- category=- stack=4
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=- pool=- context=- metadata=- category=- stack=3
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=3
    stack 5 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=5
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=5
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=- pool=- context=- metadata=- category=- stack=5
    "#);
}

#[test]
fn torch_2_1() {
    insta::assert_snapshot!(columns("torch_2_1.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=7
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=- pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=- pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=- pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=- pool=- context=- metadata=- category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=- pool=- context=- metadata=- category=- stack=2
    "#);
}

#[test]
fn torch_2_2() {
    insta::assert_snapshot!(columns("torch_2_2.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=7
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=- context=- metadata=- category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=- context=- metadata=- category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=- context=- metadata=- category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=- context=- metadata=- category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=- context=- metadata=- category=- stack=2
    "#);
}

#[test]
fn torch_2_11() {
    insta::assert_snapshot!(columns("torch_2_11.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=9
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=- context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=- context="N/A" metadata="epoch 3" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=- context="N/A" metadata="" category=- stack=1
    stack 2 "step"@"/home/user/project/train.py":12
      entry "oom" address=0x0 size=2147483648 stream=0 time=1795222544000000 pool=- context="N/A" metadata="" category=- stack=2 free=5368709120
      entry "snapshot" address=0x0 size=1536 stream=0 time=1795222544000000 pool=- context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=- context="N/A" metadata="" category=- stack=1
    stack 3 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
    stack 4 "  File \"/home/user/project/train.py\", line 9, in forward\n    return x + 1\n"@"":0
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=- context="N/A" metadata="" category=- stack=3 forward=4
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=- context="N/A" metadata="" category=- stack=3
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=- context="N/A" metadata="" category=- stack=3
    setting PYTORCH_CUDA_ALLOC_CONF text "garbage_collection_threshold:0.8"
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    annotation stage="START" name="Optimizer.step#SGD.step" device=0 time=1795222544000000
    annotation stage="END" name="Optimizer.step#SGD.step" device=0 time=1795222544000005
    "#);
}

#[test]
fn torch_2_12() {
    insta::assert_snapshot!(columns("torch_2_12.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4040000000 total=23068672 stream=0 type=large pool=0,0 expandable=true stack=0
      block address=0x7f4040000000 size=20971520 requested=20971520 state=active_allocated stack=0
      block address=0x7f4041400000 size=2097152 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4080000000 total=2097152 stream=21968 type=small pool=1,0 expandable=false stack=0
      block address=0x7f4080000000 size=2097152 requested=0 state=inactive stack=0
    trace 0 entries=15
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "segment_map" address=0x7f4040000000 size=23068672 stream=0 time=1795222544000020 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4040000000 size=20971520 stream=0 time=1795222544000021 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_alloc" address=0x7f4080000000 size=2097152 stream=21968 time=1795222544000022 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4080000000 size=8 stream=21968 time=1795222544000023 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_requested" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_completed" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "segment_unmap" address=0x7f4041600000 size=2097152 stream=0 time=1795222544000025 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_free" address=0x7f40c0000000 size=2097152 stream=0 time=1795222544000026 pool=0,0 context="N/A" metadata="" category=- stack=-
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    "#);
}

#[test]
fn torch_2_14() {
    insta::assert_snapshot!(columns("torch_2_14.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4040000000 total=23068672 stream=0 type=large pool=0,0 expandable=true stack=0
      block address=0x7f4040000000 size=20971520 requested=20971520 state=active_allocated stack=0
      block address=0x7f4041400000 size=2097152 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4080000000 total=2097152 stream=21968 type=small pool=1,0 expandable=false stack=0
      block address=0x7f4080000000 size=2097152 requested=0 state=inactive stack=0
    trace 0 entries=15
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "segment_map" address=0x7f4040000000 size=23068672 stream=0 time=1795222544000020 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4040000000 size=20971520 stream=0 time=1795222544000021 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_alloc" address=0x7f4080000000 size=2097152 stream=21968 time=1795222544000022 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4080000000 size=8 stream=21968 time=1795222544000023 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_requested" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_completed" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "segment_unmap" address=0x7f4041600000 size=2097152 stream=0 time=1795222544000025 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_free" address=0x7f40c0000000 size=2097152 stream=0 time=1795222544000026 pool=0,0 context="N/A" metadata="" category=- stack=-
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    host-segment device=-1 address=0x7f4200000000 total=4096 stream=0 type=small pool=0,0 expandable=false stack=0
      block address=0x7f4200000000 size=4096 requested=4096 state=inactive stack=0
    host-trace entries=4
      entry "segment_alloc" address=0x7f4200000000 size=4096 stream=0 time=1795222544000001 pool=0,0 context="" metadata="" category=- stack=-
      entry "alloc" address=0x7f4200000000 size=4096 stream=0 time=1795222544000002 pool=0,0 context="" metadata="" category=- stack=-
      entry "free_requested" address=0x7f4200000000 size=4096 stream=0 time=1795222544000003 pool=0,0 context="" metadata="" category=- stack=-
      entry "free_completed" address=0x7f4200000000 size=4096 stream=0 time=1795222544000004 pool=0,0 context="" metadata="" category=- stack=-
    "#);
}

#[test]
fn torch_2_15() {
    insta::assert_snapshot!(columns("torch_2_15.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4040000000 total=23068672 stream=0 type=large pool=0,0 expandable=true stack=0
      block address=0x7f4040000000 size=20971520 requested=20971520 state=active_allocated stack=0
      block address=0x7f4041400000 size=2097152 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4080000000 total=2097152 stream=21968 type=small pool=1,0 expandable=false stack=0
      block address=0x7f4080000000 size=2097152 requested=0 state=inactive stack=0
    trace 0 entries=17
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "segment_map" address=0x7f4040000000 size=23068672 stream=0 time=1795222544000020 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4040000000 size=20971520 stream=0 time=1795222544000021 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_alloc" address=0x7f4080000000 size=2097152 stream=21968 time=1795222544000022 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4080000000 size=8 stream=21968 time=1795222544000023 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_requested" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "free_completed" address=0x7f4080000000 size=8 stream=21968 time=1795222544000024 pool=1,0 context="N/A" metadata="" category=- stack=-
      entry "segment_unmap" address=0x7f4041600000 size=2097152 stream=0 time=1795222544000025 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "segment_free" address=0x7f40c0000000 size=2097152 stream=0 time=1795222544000026 pool=0,0 context="N/A" metadata="" category=- stack=-
    stack 3 "label"@"/home/user/project/train.py":40
      entry "annotate" address=0x7f4000000000 size=1000 stream=0 time=1795222544000030 pool=0,0 context="N/A" metadata="embedding.weight" category=- stack=3
    stack 4 "step"@"/home/user/project/train.py":12
      entry "alloc" address=0x7f4000001000 size=512 stream=0 time=1795222544000031 pool=0,0 context="N/A" metadata="" category=- stack=4 "internal_metadata"="mallocWithAddress"
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    "#);
}

#[test]
fn segment_list() {
    insta::assert_snapshot!(columns("segment_list.pickle"), @r#"
    layout list
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4040000000 total=23068672 stream=0 type=large pool=0,0 expandable=true stack=0
      block address=0x7f4040000000 size=20971520 requested=20971520 state=active_allocated stack=0
      block address=0x7f4041400000 size=2097152 requested=0 state=inactive stack=0
    segment device=0 address=0x7f4080000000 total=2097152 stream=21968 type=small pool=1,0 expandable=false stack=0
      block address=0x7f4080000000 size=2097152 requested=0 state=inactive stack=0
    "#);
}

#[test]
fn no_traces() {
    insta::assert_snapshot!(columns("no_traces.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=0
    trace 1 entries=0
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    "#);
}

#[test]
fn state_only() {
    insta::assert_snapshot!(columns("state_only.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=1
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=- context="N/A" metadata="" category=- stack=-
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    "#);
}

#[test]
fn one_event() {
    insta::assert_snapshot!(columns("one_event.pickle"), @r#"
    layout dict
    trace 0 entries=1
    stack 0 "step"@"/home/user/project/train.py":12
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=0
    "#);
}

#[test]
fn several_devices() {
    insta::assert_snapshot!(columns("several_devices.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    segment device=2 address=0x7f4100000000 total=20971520 stream=0 type=large pool=0,0 expandable=false stack=0
      block address=0x7f4100000000 size=20971520 requested=20971520 state=active_allocated stack=0
    segment device=3 address=0x7f4140000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
      block address=0x7f4140000000 size=2097152 requested=0 state=inactive stack=0
    trace 0 entries=7
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=2
    trace 1 entries=0
    trace 2 entries=2
      entry "segment_alloc" address=0x7f4100000000 size=20971520 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=-
      entry "alloc" address=0x7f4100000000 size=20971520 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=-
    trace 3 entries=0
    "#);
}

#[test]
fn missing_keys() {
    insta::assert_snapshot!(columns("missing_keys.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2048 stream=0 type=small pool=0,0 expandable=false stack=0
      block address=0x7f4000000000 size=512 requested=0 state=inactive stack=0
      block address=0x7f4000000200 size=1536 requested=1536 state=active_allocated stack=0
    segment device=0 address=0x7f4040000000 total=1024 stream=0 type= pool=0,0 expandable=false stack=0
    trace 0 entries=4
      entry "alloc" address=0x7f4000000000 size=512 stream=0 time=- pool=- context=- metadata=- category=- stack=-
      entry "oom" address=0x0 size=2147483648 stream=0 time=- pool=- context=- metadata=- category=- stack=-
      entry "snapshot" address=0x0 size=0 stream=0 time=- pool=- context=- metadata=- category=- stack=-
      entry "free_completed" address=0x7f4000000000 size=512 stream=0 time=- pool=- context=- metadata=- category=- stack=0
    a segment has no blocks; all of it counts as free (byte 313)
    "#);
}

#[test]
fn failed_symbols() {
    insta::assert_snapshot!(columns("failed_symbols.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0xfffffffffffff000 total=2048 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "??"@"/usr/lib/libcuda.so.1":18446744073709551615 "cudaMalloc"@"libcudart.so":78187493520 "schön"@"/home/user/Müller/naïve 模型.py":3 "⚡🔥"@"C:\\new\\train.py":4
      block address=0xfffffffffffff000 size=2048 requested=2048 state=active_allocated stack=1
    trace 0 entries=1
      entry "alloc" address=0xfffffffffffff000 size=2048 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
    "#);
}

#[test]
fn unknown_words() {
    insta::assert_snapshot!(columns("unknown_words.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=7
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="" category=- stack=1 "thread"="140"
      entry "segment_remap" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1 "tags"="[\"a\",{\"b\":[1,2,3]},null,true,1.5,-1180591620717411303424]"
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30 "a string"@"":0
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
    stack 3 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=3
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=3
    setting PYTORCH_CUDA_ALLOC_CONF text ""
    setting max_split_size int -1
    setting garbage_collection_threshold float 3fe999999999999a
    setting expandable_segments bool false
    setting roundup_power2_divisions table 3
    setting roundup_power2_divisions.1 int 0
    setting roundup_power2_divisions.2 int 0
    setting roundup_power2_divisions.32768 int 8
    setting future table 1
    setting future.depth int 3
    setting empty table 0
    annotation stage="PAUSE" name="x" device=0 time=1795222544000000
    extra "categories"="[\"parameter\",\"gradient\"]"
    extra "comment"="made by hand"
    unknown key `owner` in a block (byte 399)
    a block has the unknown state `quarantined`; it counts as inactive (byte 495)
    unknown key `numa_node` in a segment (byte 511)
    unknown key `thread` in a trace entry (byte 745)
    entries have the unknown action `segment_remap`; they are kept but not replayed (byte 816)
    unknown key `tags` in a trace entry (byte 926)
    unknown key `category` in an annotation (byte 1481)
    unknown key `categories` in the snapshot
    unknown key `comment` in the snapshot
    "#);
}

#[test]
fn metadata_dict() {
    insta::assert_snapshot!(columns("metadata_dict.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2097152 stream=0 type=small pool=0,0 expandable=false stack=0
    stack 1 "step"@"/home/user/project/train.py":12 "<module>"@"/home/user/project/train.py":30
      block address=0x7f4000000000 size=1024 requested=1000 state=active_allocated stack=1
      block address=0x7f4000000400 size=512 requested=4 state=active_pending_free stack=1
      block address=0x7f4000000600 size=2095616 requested=0 state=inactive stack=0
    trace 0 entries=7
      entry "segment_alloc" address=0x7f4000000000 size=2097152 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000001 pool=0,0 context="N/A" metadata="{\"layer\":3,\"name\":\"attn \\\"q\\\"\"}" category=- stack=1
      entry "alloc" address=0x7f4000000400 size=4 stream=0 time=1795222544000002 pool=0,0 context="N/A" metadata="" category=- stack=1
      entry "alloc" address=0x7f4000000600 size=2048 stream=0 time=1795222544000003 pool=0,0 context="N/A" metadata="" category=- stack=1
    stack 2 "backward"@"/home/user/project/train.py":14 "<module>"@"/home/user/project/train.py":30
      entry "free_requested" address=0x7f4000000600 size=2048 stream=0 time=1795222544000004 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_completed" address=0x7f4000000600 size=2048 stream=0 time=1795222544000005 pool=0,0 context="N/A" metadata="" category=- stack=2
      entry "free_requested" address=0x7f4000000400 size=4 stream=0 time=1795222544000006 pool=0,0 context="N/A" metadata="" category=- stack=2
    "#);
}

#[test]
fn fx_frames() {
    insta::assert_snapshot!(columns("fx_frames.pickle"), @r#"
        layout dict
        trace 0 entries=1
        stack 0 "forward"@"fx_generated_1.py":7,fx_node_op="call_function",fx_node_name="add",fx_node_target="aten.add",fx_original_trace="x + y" "step"@"/home/user/project/train.py":12
          entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=1795222544000000 pool=0,0 context="N/A" metadata="" category=- stack=0
    "#);
}

#[test]
fn profiler() {
    insta::assert_snapshot!(columns("profiler.pickle"), @r#"
    layout dict
    stack 0 
    segment device=0 address=0x7f4000000000 total=2048 stream=0 type= pool=0,0 expandable=false stack=0
    stack 1 "aten::empty"@"none":0
      block address=0x7f4000000000 size=1000 requested=1000 state=active_allocated stack=1
      block address=0x7f40000003e8 size=1048 requested=0 state=inactive stack=0
    trace 0 entries=5
      entry "alloc" address=0x7f4000000000 size=1000 stream=0 time=- pool=- context=- metadata=- category="parameter" stack=1
      entry "alloc" address=0x7f4000000400 size=512 stream=0 time=- pool=- context=- metadata=- category="activation" stack=1
      entry "free_requested" address=0x7f4000000400 size=512 stream=0 time=- pool=- context=- metadata=- category="activation" stack=1
      entry "free_completed" address=0x7f4000000400 size=512 stream=0 time=- pool=- context=- metadata=- category="activation" stack=1
      entry "alloc" address=0x0 size=64 stream=0 time=- pool=- context=- metadata=- category="unknown" stack=0
    trace 1 entries=0
    "#);
}

#[test]
fn one_object_reads_alike_in_every_encoding() {
    let expected = columns("torch_2_15.pickle");
    for protocol in 0..=5 {
        let name = format!("protocol_{protocol}.pickle");
        assert_same(&columns(&name), &expected, &name);
        // Protocol 1 does not say that it is not protocol 0.
        let announced = if protocol == 1 { 0 } else { protocol };
        assert_eq!(layout(&name).encoding, Encoding::Pickle { protocol: announced });
    }
    assert_same(&columns("viewer_page.html"), &expected, "viewer_page.html");
    assert_same(&columns("viewer.json"), &expected, "viewer.json");
    assert_eq!(layout("viewer.json").encoding, Encoding::Json);
}

#[test]
fn the_cpp_writer_says_the_same_as_the_python_one() {
    assert_same(&columns("cpp_writer.pickle"), &columns("failed_symbols.pickle"), "cpp_writer.pickle");
}

#[test]
fn every_layout_has_its_line_in_the_readme() {
    let readme = std::fs::read_to_string(testdata("layouts/README.md")).unwrap();
    for entry in std::fs::read_dir(testdata("layouts")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let listed = readme.contains(&format!("`{name}`"));
        assert!(listed || name == "README.md" || name.starts_with("protocol_"), "{name} is not in the README");
    }
}

#[test]
fn an_empty_dict_of_the_right_keys_is_a_snapshot() {
    let snapshot = Snapshot::read(&b"{\"segments\": [], \"device_traces\": []}"[..]).unwrap();
    assert!(snapshot.devices().is_empty());
}
